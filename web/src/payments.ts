import { ask, follow, key, Refusal } from './api'
import { touch } from './query'
import { viewer } from './session'
import { Store } from './store'

type ActionState =
  | 'PENDING' | 'PENDING_HELD' | 'HELD' | 'FORWARDING' | 'FORWARDED' | 'FAILED_FORWARD' | 'CANCELING' | 'PAID' | 'FAILED' | 'RETRYING'

export type Action = {
  id: string
  kind: string
  state: ActionState
  paymentMethod: string
  costMsat: string
  invoice: { bolt11: string | null; amountMsat: string; receivedMsat: string | null; hold: boolean; expiresAt: string } | null
  failure: { code: string; message: string } | null
  deadline: string | null
  successorId: string | null
  secret: string | null
  createdAt: string
  result?: { item?: { id: string } | null; sats?: number; msat?: string } | null
  receipt?: { preimage: string; feeMsat: string } | null
}

export const actionFragment = `fragment Action on PaidAction {
  id kind state paymentMethod costMsat deadline successorId secret createdAt
  invoice { bolt11 amountMsat receivedMsat hold expiresAt } failure { code message }
  ... on ItemCreateAction { result { item { id } } }
  ... on ZapAction { result { item { id } sats } }
  ... on WithdrawAction { result { msat } receipt { preimage feeMsat } }
}`

// over says that nothing more becomes of an action. What follows an attempt that was tried again is an action of its own.
export const over = (a: Action) => ['PAID', 'FAILED'].includes(a.state)
// goesOn says that the service may begin the next attempt by itself: it tells of a failed one until it has, or will not.
// Without a deadline nothing may be tried again.
export const goesOn = (a: Action) => a.state === 'FAILED' && a.paymentMethod === 'P2P' && a.failure?.code === 'PAYMENT_FAILED' && a.deadline !== null
export const payable = (a: Action) => ['PENDING', 'PENDING_HELD'].includes(a.state)

// Intent is what somebody wants to do and pay for. The types of its arguments are those of the schema.
type Intent = {
  what: string // for people: "Zap of 10 sats"
  mutation: string
  args: Record<string, [type: string, value: unknown]>
  begun?: (a: Action) => void // it is done, or waits for its payment
  paid?: (a: Action) => void
}

// A Payment is one intent with all its attempts, until it is paid or given up. The idempotency key is kept until an
// answer is known, even if the page is reloaded: so asking twice pays once.
export class Payment {
  action: Action | null = null
  trouble: Refusal | null = null // of the last request; null if it had none
  unclear = false // what was asked for may have been done, and no answer has said so
  earlier = false // the answer is what was begun long ago, and not by what was asked for now
  asking = false
  private watched = '' // the id of the action that the service tells of
  private told = false // the service has told all that there is of it
  private stop: () => void = () => {}

  constructor(readonly intent: Intent) {}

  // over says that nothing more becomes of it: neither of this attempt, nor by one that nobody asks for.
  get over() {
    return this.action !== null && over(this.action) && (this.told || !goesOn(this.action))
  }

  // begin agrees to the price that the form showed, or to the new price from the last refusal.
  async begin() {
    const { mutation, args } = this.intent
    if (this.trouble?.costMsat) args.maxCostSats = ['Sats', wholeSats(this.trouble.costMsat)]
    const given = Object.entries(args).filter(([, [, value]]) => value !== undefined && value !== null && value !== '')
    const types = given.map(([name, [type]]) => `, $${name}: ${type}`).join('')
    const passed = given.map(([name]) => `, ${name}: $${name}`).join('')
    const values = Object.fromEntries(given.map(([name, [, value]]) => [name, value]))
    // The highest price is not part of what is asked for: the same text at another price is the same request.
    const { maxCostSats: _, ...asked } = values
    await this.ask(
      `mutation ($key: String${types}) { action: ${mutation}(idempotencyKey: $key${passed}) { ...Action } } ${actionFragment}`,
      values,
      [mutation, asked],
    )
  }

  // retry agrees to the cost of the failed attempt, or to the new price from the last refusal.
  retry = () => {
    const { id, costMsat } = this.action!
    const most = wholeSats(this.trouble?.costMsat ?? costMsat)
    return this.ask(
      `mutation ($id: ID!, $key: String, $most: Sats, $secret: String) {
        action: retryPaidAction(id: $id, idempotencyKey: $key, maxCostSats: $most, secret: $secret) { ...Action }
      } ${actionFragment}`,
      { id, most, secret: secretOf(id) },
      ['retryPaidAction', id],
    )
  }

  cancel = () => {
    const id = this.action!.id
    return this.ask(
      `mutation ($id: ID!, $secret: String) { action: cancelInvoice(id: $id, secret: $secret) { ...Action } } ${actionFragment}`,
      { id, secret: secretOf(id) },
    )
  }

  // What somebody has asked for is neither asked for again nor shown once they have signed out: whoever signs in next
  // would pay for it. A wish is asked for with its idempotency key.
  private async ask(query: string, variables: object, wish?: unknown[]) {
    if (this.asking) return // a double tap
    this.asking = true
    this.trouble = null
    this.earlier = false
    tell()
    const as = key.get()
    const pressed = Date.now()
    try {
      for (let tries = 1; key.get() === as; tries++) {
        let kept: Kept | undefined
        try {
          kept = wish && keyFor(JSON.stringify([...wish, await viewer()]))
          if (key.get() !== as) break
          this.unclear ||= !!kept?.since
          const { action } = await ask<{ action: Action }>(query, { ...variables, key: kept?.key })
          kept?.forget()
          this.unclear = false
          // By both clocks, since the service's may be another. What failed then is asked for anew.
          this.earlier = !!kept && [kept.since, Date.parse(action.createdAt)].every((at) => at < pressed - long)
          if (this.earlier && action.state === 'FAILED' && !goesOn(action)) continue
          if (action.secret) keepSecret(action.id, action.secret)
          if (key.get() !== as) return
          this.take(action)
          break
        } catch (error) {
          const refusal = error as Refusal
          this.unclear = refusal.unclear || (this.unclear && this.saysNothing(refusal))
          if (!this.unclear) kept?.forget()
          if (refusal.code !== 'NO_ANSWER' || tries === 3) throw refusal
          await new Promise((done) => setTimeout(done, 500 * tries))
        }
      }
    } catch (error) {
      if (key.get() !== as) return
      this.trouble = error as Refusal
      // Where nothing was begun, there is only the reason to show. An attempt that was begun may have gone on
      // meanwhile.
      if (this.action) this.watch(this.action.id)
    }
    this.asking = false
    tell()
  }

  // saysNothing tells whether a refusal leaves open what has become of an earlier try: whose key is not good is refused
  // before anything is looked up, and an address may refuse while the earlier try still waits for it.
  private saysNothing({ code }: Refusal) {
    return ['UNAUTHENTICATED', 'FORBIDDEN'].includes(code) || this.intent.mutation === 'withdraw'
  }

  // take makes this action, as it is now, the one that the payment is about.
  take(action: Action) {
    const first = this.action === null
    // recall may have found the action before its answer came here: they are one payment.
    if (first) underway.get().filter((p) => p !== this && p.action?.id === action.id).forEach(drop)
    const before = this.action
    this.action = action
    if (first && !this.earlier) this.intent.begun?.(action)
    if (action.state === 'PAID' && before?.state !== 'PAID' && !this.earlier) this.intent.paid?.(action)
    if (before?.id !== action.id) this.trouble = null // it was the other attempt's
    // The next attempt, which nobody asked for, may have been paid from a balance.
    if (before && before.id !== action.id && action.state === 'PAID' && !action.invoice && shown.get() !== this) tellPaid(this)
    const { successorId, secret } = action
    if (successorId && secret) keepSecret(successorId, secret)
    // A failed action is followed until the service ends that: if the receiver could not be paid, the service begins
    // the next attempt by itself.
    if (action.state === 'PAID') {
      this.stop()
      forgetSecret(action.id)
    } else if (action.state !== 'FAILED' || goesOn(action)) this.watch(successorId ?? action.id)
    if (first || before?.state !== action.state) touch()
    tell()
  }

  private watch(id: string) {
    if (this.watched === id) return
    let later = 0
    const unfollow = follow(
      `subscription ($id: ID!, $secret: String) { action: paidActionUpdated(id: $id, secret: $secret) { ...Action } } ${actionFragment}`,
      { id, secret: secretOf(id) },
      (data: { action: Action }) => this.take(data.action),
      (why) => {
        this.watched = ''
        // The service could not tell, as while its database is away, or it has told of the end before the answer to
        // something came that was looked up earlier: it is asked again.
        const late = !why && this.action?.id === id && !over(this.action)
        if (why?.unclear || late) later = setTimeout(() => this.watch(id), 3000)
        else this.told = true
        tell()
      },
    )
    this.stop() // not before: the connection is closed once nothing is followed
    this.watched = id
    this.told = false
    this.stop = () => {
      this.watched = ''
      clearTimeout(later)
      unfollow()
    }
  }

  forget() {
    this.stop()
  }
}

// actionOf reads one of the viewer's own actions.
async function actionOf(id: string): Promise<Action> {
  const query = `query ($id: ID!, $secret: String) { action: paidAction(id: $id, secret: $secret) { ...Action } } ${actionFragment}`
  return (await ask<{ action: Action }>(query, { id, secret: secretOf(id) })).action
}

// underway are all payments that this page knows of, the latest last; shown is the one that the dialog shows.
export const underway = new Store<Payment[]>([])
export const shown = new Store<Payment | null>(null)
export const said = new Store({ what: '', text: '' }) // short messages, shown and read aloud

const tell = () => {
  underway.set([...underway.get()])
  shown.set(shown.get())
}

// tellPaid says that a balance has paid.
const tellPaid = ({ intent, action }: Payment) =>
  said.set({ what: intent.what, text: `: paid from your ${action!.paymentMethod === 'FEE_CREDIT' ? 'credits' : 'sats'}.` })

// The same intent within so many milliseconds of its answer is an accidental double tap.
const doubleTap = 500
let latest = { intent: '', until: 0 }

// A question that has no answer after so many milliseconds is shown.
const soon = 1000

// pay carries out an intent. If it is paid from a balance, it is done when this returns; otherwise a dialog shows what
// to pay. One that was shown before, and closed, is not shown again, unless nothing else tells what has become of it.
export async function pay(intent: Intent): Promise<void> {
  const same = JSON.stringify([intent.mutation, intent.args])
  if (latest.intent === same && Date.now() < latest.until) return
  latest = { intent: same, until: Infinity }
  const payment = new Payment(intent)
  underway.set([...underway.get(), payment])
  let seen = false
  const slow = setTimeout(() => {
    if (!underway.get().includes(payment) || shown.get()) return
    seen = true
    shown.set(payment)
  }, soon)
  await payment.begin()
  clearTimeout(slow)
  latest.until = Date.now() + doubleTap
  if (!underway.get().includes(payment)) return // its payer has signed out
  if (payment.action?.state === 'PAID' && !payment.earlier) {
    tellPaid(payment)
    if (shown.get() === payment) shown.set(null)
    drop(payment)
  } else if (!seen || !payment.action || payment.earlier) {
    shown.set(payment)
  }
}

// resume follows an action that was begun earlier.
export function resume(action: Action, what: string, show: boolean) {
  let payment = underway.get().find((p) => p.action?.id === action.id)
  if (!payment) {
    payment = new Payment({ what, mutation: '', args: {} })
    underway.set([...underway.get(), payment])
    payment.take(action)
  }
  if (show) shown.set(payment)
  return payment
}

// hide closes the dialog. What is not over, or is being asked for, stays and can be shown again.
export function hide(payment: Payment) {
  shown.set(null)
  if (!payment.asking && (!payment.action || payment.over)) drop(payment)
}

// What one person has begun is not shown to the next one who signs in.
key.listen(() => {
  shown.set(null)
  underway.get().forEach(drop)
})

function drop(payment: Payment) {
  payment.forget()
  underway.set(underway.get().filter((p) => p !== payment))
}

// usePendingSats is how much this payer's zaps of an item will add to it once they are paid. Nobody else sees that.
export function usePendingSats(item: string): number {
  const waiting = underway.use().map((p) => p.action).filter((a) => a?.kind === 'ZAP' && !over(a) && a.result?.item?.id === item)
  return waiting.reduce((sum, a) => sum + (a!.result!.sats ?? 0), 0)
}

const wholeSats = (msat: string) => Math.ceil(Number(msat) / 1000)

// Kept is the idempotency key of a wish. since: when it was asked for first, if no answer has come; else NaN.
type Kept = { key: string; since: number; forget: () => void }

// Who asks for the same after so many milliseconds may want it once more. Before that it is another try.
const long = 300_000

// keyFor names a wish by its user, and not by their API key: that may end before the answer comes, and whoever signs in
// again asks for the same.
function keyFor(wish: string): Kept {
  const place = 'holdfast.asked:' + wish
  const [before, since] = sessionStorage.getItem(place)?.split(' ') ?? []
  const key = before ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
  if (!before) sessionStorage.setItem(place, `${key} ${Date.now()}`)
  return { key, since: Number(since), forget: () => sessionStorage.removeItem(place) }
}

// A secret proves to the service that an anonymous action is one's own.
const secrets = 'holdfast.secret:'

// anonymousActions reads the actions that were begun in this window without signing in.
export const anonymousActions = () =>
  Object.keys(sessionStorage).filter((name) => name.startsWith(secrets)).map((name) => actionOf(name.slice(secrets.length)))

const secretOf = (id: string) => sessionStorage.getItem(secrets + id)
const keepSecret = (id: string, secret: string) => sessionStorage.setItem(secrets + id, secret)
export const forgetSecret = (id: string) => sessionStorage.removeItem(secrets + id)
