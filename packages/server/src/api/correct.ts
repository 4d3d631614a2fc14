import type { Booking } from 'headgate'
import type { Service } from '../service.ts'
import type { InlineGates } from './inline.ts'
import { Refusal, refusalOf } from './problem.ts'
import type { Reserved, Seal } from './reservation.ts'
import { reservationSchema, settleSchema } from './schemas.ts'
import { parse } from './take.ts'

export type Correction = 'settle' | 'refund' | 'release'

/** Corrects what was taken, here or elsewhere, by its reservation. */
export class Corrector {
  readonly #service: Service
  readonly #gates: InlineGates
  readonly #seal: Seal

  constructor(service: Service, gates: InlineGates, seal: Seal) {
    this.#service = service
    this.#gates = gates
    this.#seal = seal
  }

  async answer(verb: Correction, body: unknown): Promise<object> {
    const applied = verb === 'settle' ? await this.#settle(body) : await this.#giveBack(verb, body)
    return { ok: true, applied }
  }

  async #settle(body: unknown): Promise<boolean> {
    const { reservation, actual, status } = parse(settleSchema, body)
    const booking = this.#bookingOf(reservation)
    const counted = status !== undefined && (await booking.count({ status }))
    try {
      return (actual !== undefined && (await booking.settle(actual))) || counted
    } catch (error) {
      throw refusalOf(error, '/actual')
    }
  }

  #giveBack(verb: 'refund' | 'release', body: unknown): boolean | Promise<boolean> {
    return this.#bookingOf(parse(reservationSchema, body).reservation)[verb]()
  }

  #bookingOf(reservation: string): Booking<boolean | Promise<boolean>> {
    const reserved = this.#seal.open(reservation)
    const booking = reserved && this.#resume(reserved)
    if (booking === undefined) throw unknown
    return booking
  }

  #resume({ receipt, definition }: Reserved): Booking<boolean | Promise<boolean>> | undefined {
    if (definition !== undefined) return this.#gates.gateOf(definition).resume(receipt)
    return this.#service.rules.gate.resume(receipt)
  }
}

const unknown = new Refusal(404, 'reservation_unknown', 'This reservation is not known, or has ended.', {
  pointer: '/reservation',
})
