// One variant in a process of its own; see ../graphql.ts for the question and ../harness.ts for who starts it.
import { buildSchema, type DocumentNode, parse } from 'graphql'
import { getComplexity } from 'graphql-query-complexity'
import { graphqlCost } from 'headgate/graphql'
import type { Figures, Job } from '../harness.ts'
import { answer } from '../worker.ts'

const schema = buildSchema(`
  type Query { viewer: User  users(first: Int): [User] }
  type User { id: ID  name: String  email: String  posts(first: Int): [Post] }
  type Post { id: ID  title: String  comments(first: Int): [Comment] }
  type Comment { id: ID  text: String  author: User }
`)
const variables = { n: 10 }
const queries: Record<string, { readonly text: string; readonly cost: number }> = {
  'three-levels': {
    text: `query Q($n: Int) {
      viewer { id name email }
      users(first: $n) { id name posts(first: 5) { id title comments(first: 3) { id text } } }
    }`,
    cost: 1 + 1 + 10 * (1 + 5 * (1 + 3)),
  },
  fragments: {
    text: `query Q($n: Int) { viewer { ...U } users(first: $n) { ...U posts(first: 5) { ...P } } }
      fragment U on User { id name email }
      fragment P on Post { id title comments(first: 3) { ...C } }
      fragment C on Comment { id text author { ...U } }`,
    cost: 1 + 1 + 10 * (1 + 5 * (1 + 3 * 2)),
  },
}

type Work = (document: DocumentNode) => number
const makers: Record<string, () => Work> = {
  headgate: () => {
    const cost = graphqlCost(schema)
    return (document) => cost(document, variables)
  },
  // The same prices: an object 1, a list its argument; it does not count the root.
  'graphql-query-complexity': () => (document) =>
    1 +
    getComplexity({
      schema,
      query: document,
      variables,
      estimators: [
        ({ args, childComplexity, node }) =>
          node.selectionSet === undefined ? 0 : (args.first ?? 1) * (1 + childComplexity),
      ],
    }),
}

function measure({ scenario, variant, quick }: Job): Figures {
  const query = queries[scenario]
  const work = makers[variant]?.()
  if (query === undefined || work === undefined) throw new Error(`no ${variant} of ${scenario}`)
  const document = parse(query.text)
  // Whoever skips half of the query would win.
  const cost = work(document)
  if (cost !== query.cost) throw new Error(`${variant} says ${cost}, and ${scenario} costs ${query.cost}`)
  const [warm, count] = quick ? [200, 500] : [20_000, 50_000]
  for (let i = 0; i < warm; i++) work(document)
  const startMs = performance.now()
  for (let i = 0; i < count; i++) work(document)
  return { us: ((performance.now() - startMs) * 1000) / count }
}

await answer({ 'three-levels': measure, fragments: measure })
