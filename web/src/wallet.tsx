import { useState } from 'preact/hooks'
import { ago, sats } from './format'
import { List } from './list'
import { actionFragment, over, pay, resume, type Action } from './payments'
import { Link, useTitle } from './router'
import { me } from './session'
import { SignInFirst } from './settings'

// Balances shows two balances that are never added up: credits can only be spent here.
export function Balances() {
  const mine = me.use()
  return (
    <dl class="balances">
      <div><dt>Credits</dt><dd>{mine ? sats(mine.creditsMsat) : '…'}</dd><dd class="muted">can be spent here</dd></div>
      <div><dt>Sats</dt><dd>{mine ? sats(mine.satsMsat) : '…'}</dd><dd class="muted">can be withdrawn</dd></div>
    </dl>
  )
}

export function WalletPage() {
  useTitle('Wallet')
  return (
    <SignInFirst>
      <h1>Wallet</h1>
      <Balances />
      <p class="buttons">
        <Link to="/wallet/credits" class="button primary">Buy credits</Link>
        <Link to="/wallet/withdraw" class="button">Withdraw</Link>
        <Link to="/wallet/receiving" class="button">Receiving wallets</Link>
      </p>
      <h2>History</h2>
      <History />
    </SignInFirst>
  )
}

type Entry = {
  at: string
  action: Action | null
  received: { msat: string; asset: string; direct: boolean; reason: string; item: { id: string } | null; comment: string | null } | null
}

const historyQuery = `query ($after: String) { me { page: history(after: $after) { nodes { at action { ...Action }
  received { msat asset direct reason item { id } comment } } next } } } ${actionFragment}`

const names: Record<string, string> = {
  ITEM_CREATE: 'Post or comment', ITEM_UPDATE: 'Change', ZAP: 'Zap', POLL_VOTE: 'Vote', DOWN_ZAP: 'Down-zap', BOOST: 'Boost', DONATE: 'Donation',
  BUY_CREDITS: 'Credits bought', RECEIVE: 'Sent to somebody', WITHDRAW: 'Withdrawal', INVITE_GIFT: 'Gift to an invited newcomer',
  TERRITORY_CREATE: 'Territory', TERRITORY_UPDATE: 'Territory', TERRITORY_BILLING: 'Territory', TERRITORY_UNARCHIVE: 'Territory',
}

// nameOf names a kind of action in plain words, or by its name in the API if there are none yet.
export const nameOf = (kind: string) => names[kind] ?? kind[0] + kind.slice(1).toLowerCase().replaceAll('_', ' ')

const states: Partial<Record<Action['state'], string>> = {
  PENDING: 'not paid yet', PENDING_HELD: 'not paid yet', CANCELING: 'being cancelled', PAID: 'paid', FAILED: 'not paid', RETRYING: 'retried',
}

export function History() {
  return <List query={historyQuery} of="me" empty="Nothing yet." class="history" row={(e: Entry) => <Line key={e.at + e.action?.id} entry={e} />} />
}

// costOf is what somebody pays for an action: for a withdrawal the most that it may cost, until that is known.
const costOf = ({ costMsat, result, receipt }: Action) => (receipt ? Number(result!.msat) + Number(receipt.feeMsat) : costMsat)

function Line({ entry: { at, action, received } }: { entry: Entry }) {
  return (
    <li>
      {action && (
        <>
          <span>{nameOf(action.kind)} <small class="tag">{states[action.state] ?? 'under way'}</small></span>
          <time class="muted" dateTime={at}>{ago(at)}</time>
          <strong class={action.state === 'PAID' ? '' : 'muted'}>−{sats(costOf(action))}</strong>
          {!over(action) && !action.successorId && <button onClick={() => resume(action, nameOf(action.kind), true)}>Show</button>}
          {action.receipt && <details><summary>Receipt</summary>Routing cost {sats(action.receipt.feeMsat)}. Proof of payment (preimage): <code>{action.receipt.preimage}</code></details>}
        </>
      )}
      {received && (
        <>
          <span>{received.item ? <Link to={`/items/${received.item.id}`}>{received.reason}</Link> : received.reason}
            {' '}<small class="tag">{received.direct ? 'to your own wallet' : received.asset.toLowerCase()}</small>{received.comment && <> “<bdi>{received.comment}</bdi>”</>}</span>
          <time class="muted" dateTime={at}>{ago(at)}</time>
          <strong class="good">+{sats(received.msat)}</strong>
        </>
      )}
    </li>
  )
}

export function CreditsPage() {
  useTitle('Buy credits')
  const [credits, setCredits] = useState(1000)
  return (
    <SignInFirst>
      <h1>Buy credits</h1>
      <p>A credit is a sat that you can spend here without an invoice each time. Credits cannot be turned back into sats.</p>
      <Balances />
      <form class="stack" onSubmit={(e) => { e.preventDefault(); void pay({ what: `${credits.toLocaleString('en')} credits`, mutation: 'buyCredits', args: { credits: ['Sats!', credits] } }) }}>
        <label>Credits<input type="number" required min={1} value={credits} onInput={(e) => setCredits(Number(e.currentTarget.value))} /></label>
        <p class="price">Price: <strong>{sats(credits * 1000)}</strong></p>
        <button class="primary">Buy</button>
      </form>
    </SignInFirst>
  )
}

// amountOf is how many msat an invoice asks for, by the part of it that people can read; null: it does not say. Only a node
// decides what can be paid.
function amountOf(to: string): number | null {
  const [, digits, unit] = /^(?:lightning:)?ln(?:bc|tb|bcrt|tbs|sb)(\d+)([munp]?)1/.exec(to) ?? []
  return digits ? (Number(digits) * { '': 1e12, m: 1e9, u: 1e6, n: 1e3, p: 1 }[unit]!) / 10 : null
}

// isAddress says whether it is left to the payer how much is sent, as to a lightning address or an LNURL. The service
// takes the same for one (relay/terms.go).
const isAddress = (to: string) => to.includes('@') || /^(lightning:)?(lnurl|https:\/\/)/.test(to)

export function WithdrawPage() {
  useTitle('Withdraw')
  const [to, setTo] = useState('')
  const [amount, setAmount] = useState(0)
  const [fee, setFee] = useState(10)
  const payee = to.trim().toLowerCase()
  const address = isAddress(payee)
  const asked = address ? null : amountOf(payee)
  const submit = (event: Event) => {
    event.preventDefault()
    const args = {
      to: ['String!', to.trim()], sats: ['Sats', address ? amount : null], maxFeeSats: ['Sats!', fee],
      maxCostSats: ['Sats', asked === null ? null : Math.ceil(asked / 1000) + fee],
    } satisfies Record<string, [string, unknown]>
    // Once it is begun the form offers it no more: a lightning address would be paid a second time.
    const begun = ({ state }: Action) => state !== 'FAILED' && setTo((now) => (now === to ? '' : now))
    void pay({ what: 'Withdrawal', mutation: 'withdraw', args, begun })
  }
  return (
    <SignInFirst>
      <h1>Withdraw</h1>
      <Balances />
      <form class="stack" onSubmit={submit}>
        <label>Invoice, lightning address or LNURL<input required value={to} placeholder="lnbc… or name@example.org" autocomplete="off" onInput={(e) => setTo(e.currentTarget.value)} /></label>
        {address && <label>Sats<input type="number" required min={1} value={amount || ''} onInput={(e) => setAmount(Number(e.currentTarget.value))} /></label>}
        <label>Most that routing may cost, in sats<input type="number" required min={0} value={fee} onInput={(e) => setFee(Number(e.currentTarget.value))} /></label>
        {asked !== null && <p class="price">The invoice asks for <strong>{sats(asked)}</strong>.</p>}
        <p class="muted">What routing does not use comes back to your balance.</p>
        <button class="primary">Withdraw</button>
      </form>
    </SignInFirst>
  )
}
