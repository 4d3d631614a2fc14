import type { Page } from 'playwright-core'

/**
 * What would keep somebody from using the page with a keyboard, a reader of screens or weak eyes: controls without names, ids said
 * twice, headings out of order, text with too little contrast, things to focus that do not show it, a page wider than its window.
 */
export function faultsOf(page: Page): Promise<string[]> {
  return page.evaluate(CHECK)
}

/** Runs in the page, whose types tests do not know. */
const CHECK = `(() => {
  const faults = []
  const all = [...document.querySelectorAll('*')]
  const isShown = (el) => el.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && el.getClientRects().length > 0
  const what = (el) => el.outerHTML.slice(0, 90)
  const nameOf = (el) => {
    const by = el.getAttribute('aria-labelledby')
    if (by) return document.getElementById(by)?.textContent?.trim() ?? ''
    const own = el.getAttribute('aria-label') ?? [...(el.labels ?? [])].map((l) => l.textContent).join(' ')
    return (own || (el.matches('input, select, textarea') ? '' : el.textContent) || el.title || '').trim()
  }
  for (const el of all.filter((el) => el.matches('a[href], button, input, select, textarea, [role=slider], [role=img], dialog, nav')))
    if (isShown(el) && nameOf(el) === '') faults.push('no name: ' + what(el))
  for (const el of all.filter((el) => el.matches('svg') && !el.matches('[aria-hidden=true], [role=img]'))) faults.push('drawing without a role: ' + what(el))
  const ids = all.map((el) => el.id).filter(Boolean)
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) faults.push('id said twice: ' + id)
  if (document.documentElement.lang === '') faults.push('no language')
  if (document.title === '') faults.push('no title')
  if (document.querySelectorAll('main').length !== 1) faults.push('not one main')
  const levels = all.filter((el) => /^H[1-6]$/.test(el.tagName) && isShown(el)).map((el) => Number(el.tagName[1]))
  if (levels.filter((level) => level === 1).length !== 1) faults.push('not one h1')
  levels.forEach((level, i) => { if (i > 0 && level > levels[i - 1] + 1) faults.push('heading ' + level + ' after ' + levels[i - 1]) })
  for (const table of document.querySelectorAll('table')) for (const th of table.querySelectorAll('th')) if (!th.scope) faults.push('no scope: ' + what(th))
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) faults.push('wider than the window: ' + document.documentElement.scrollWidth)

  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data] }
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => (c * a + under[i] * (255 - a)) / 255)
  const behind = (el) => {
    const stack = []
    for (let each = el; each; each = each.parentElement) stack.push(rgba(getComputedStyle(each).backgroundColor))
    return stack.reverse().reduce((under, color) => over(color, under), [255, 255, 255])
  }
  const light = (rgb) => { const [r, g, b] = rgb.map((c) => { const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const seen = new Set()
  while (texts.nextNode()) {
    const el = texts.currentNode.parentElement
    if (texts.currentNode.data.trim() === '' || seen.has(el) || !isShown(el) || el.closest(':disabled, option, noscript')) continue
    seen.add(el)
    const under = behind(el)
    const [a, b] = [light(over(rgba(getComputedStyle(el).color), under)), light(under)].sort((x, y) => y - x)
    const contrast = (a + 0.05) / (b + 0.05)
    if (contrast < 4.5) faults.push('contrast ' + contrast.toFixed(2) + ': ' + what(el))
  }
  return [...new Set(faults)]
})()`

/** Goes through the page by Tab, once around; what does not show that it has the focus. */
export async function unseenFocus(page: Page): Promise<string[]> {
  const unseen: string[] = []
  const seen = new Set<string>()
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press('Tab')
    const [name, outline] = (await page.evaluate(FOCUSED)) as [string, string]
    if (name === '' || seen.has(name)) break
    seen.add(name)
    if (outline === 'none') unseen.push(name)
  }
  return seen.size > 5 ? unseen : [...unseen, `only ${seen.size} stops`]
}

const FOCUSED = `(() => {
  const el = document.activeElement
  if (el === null || el === document.body) return ['', '']
  const path = []
  for (let each = el; each.parentElement; each = each.parentElement) path.unshift([...each.parentElement.children].indexOf(each))
  const shows = [el, el.closest('label, .editor')].some((each) => each && (getComputedStyle(each).outlineStyle !== 'none' || each.matches('.editor')))
  return [path.join('/') + ' ' + el.outerHTML.slice(0, 80), shows ? 'shown' : 'none']
})()`
