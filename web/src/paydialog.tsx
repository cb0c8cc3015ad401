import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Countdown } from './countdown'
import { ago, sats } from './format'
import { hide, payable, shown, type Action, type Payment } from './payments'
import { Link } from './router'
import { Store } from './store'

declare global {
  interface Window {
    webln?: { enable(): Promise<void>; sendPayment(bolt11: string): Promise<unknown> }
  }
}

// Asked says what has become of an invoice that this page gave to a wallet. While the wallet is paying, or says that it
// has paid, no other way to pay the invoice is offered. unheard: the page was reloaded meanwhile and missed the
// wallet's answer, so only the wallet's owner can check.
type Asked = { paying: boolean; says: string; unheard?: boolean }

// asked is keyed by invoice. It outlives the dialog, which may be closed meanwhile; the fact that a wallet is paying
// outlives the page, too.
const asked = new Store<Record<string, Asked>>({})
const place = (bolt11: string) => 'holdfast.paying:' + bolt11

function becomes(bolt11: string, now: Asked) {
  if (now.paying) sessionStorage.setItem(place(bolt11), '1')
  else sessionStorage.removeItem(place(bolt11))
  asked.set({ ...asked.get(), [bolt11]: now })
}

const before = (bolt11: string): Asked =>
  sessionStorage.getItem(place(bolt11)) === null
    ? { paying: false, says: '' }
    : { paying: true, says: 'Your wallet was asked to pay this before this page was reloaded. Check there whether it did.', unheard: true }

const demoWallet = document.querySelector<HTMLMetaElement>('meta[name=demo-wallet]')?.content

// PayDialog shows the payment that somebody is asked for, and what becomes of it.
export function PayDialog() {
  const payment = shown.use()
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    if (payment && !dialog.current!.open) dialog.current!.showModal()
    if (!payment && dialog.current!.open) dialog.current!.close()
  }, [payment])
  useEffect(() => {
    // Back and forward lead away from what the dialog was opened over.
    const away = () => shown.get() && hide(shown.get()!)
    addEventListener('popstate', away)
    return () => removeEventListener('popstate', away)
  }, [])
  // The browser tells of it later that the dialog was closed: by then it may have been opened again, and stays open.
  const closed = () => payment && !dialog.current!.open && hide(payment)
  return (
    <dialog ref={dialog} class="pay" aria-labelledby="pay-title" aria-describedby="pay-state" onClose={closed}>
      {payment && <Content payment={payment} key={payment} />}
    </dialog>
  )
}

function Content({ payment }: { payment: Payment }) {
  const { action, trouble, asking } = payment
  const open = action && payable(action) && action.invoice?.receivedMsat == null
  const failed = action?.state === 'FAILED'
  const repeatable = failed && action.paymentMethod !== 'OUTGOING' // a withdrawal is begun anew, by its form
  const notBegun = !action && trouble
  const dearer = trouble?.costMsat && sats(trouble.costMsat)
  return (
    <>
      <header>
        <h2 id="pay-title">{payment.intent.what}</h2>
        <button class="quiet" aria-label="Close" onClick={() => hide(payment)}>✕</button>
      </header>
      <p id="pay-state" class="state" role="status" data-state={action?.state}>
        {action && payment.earlier && `This was begun ${ago(action.createdAt)} already, and nothing more was paid now. `}{tellOf(payment)}
      </p>
      {trouble && <p class="bad" role="alert">{trouble.message}</p>}
      {open && action.invoice?.bolt11 && <Invoice key={action.id} action={action} bolt11={action.invoice!.bolt11} />}
      <footer onClick={(event) => event.target instanceof HTMLAnchorElement && hide(payment)}>
        {open && <button disabled={asking} onClick={payment.cancel}>Cancel this payment</button>}
        {repeatable && <button class="primary" disabled={asking} onClick={payment.retry}>{dearer ? `Try again for ${dearer}` : 'Try again'}</button>}
        {notBegun && dearer && <button class="primary" disabled={asking} onClick={() => void payment.begin()}>Continue for {dearer}</button>}
        {notBegun && payment.unclear && <button class="primary" disabled={asking} onClick={() => void payment.begin()}>Ask again</button>}
        {notBegun && trouble.code === 'UNAUTHENTICATED' && <Link to="/settings" class="button">Sign in</Link>}
        {(!open || asking) && <button class={repeatable || notBegun ? '' : 'primary'} autofocus onClick={() => hide(payment)}>{action?.state === 'PAID' ? 'Done' : 'Close'}</button>}
      </footer>
    </>
  )
}

// tellOf says in one sentence who has to act next.
function tellOf({ action, asking, unclear, over }: Payment): string {
  if (!action) return asking ? 'Asking…' : unclear ? 'It is not known whether this went through. You can ask again without paying twice.' : 'Nothing was done, and nothing was charged.'
  if (action.invoice?.receivedMsat != null && action.state.startsWith('PENDING')) return 'The payment has been seen…'
  switch (action.state) {
    case 'PENDING':
      return `Done, but only you can see it until you pay ${sats(action.costMsat)}.`
    case 'PENDING_HELD':
      return action.invoice?.bolt11 || action.paymentMethod !== 'OUTGOING' ? `Pay ${sats(action.costMsat)}. It is done as soon as your payment arrives; if it cannot be done, you get your money back.` : 'Sending…'
    case 'HELD':
      return 'Your payment has arrived; we are settling it…'
    case 'FORWARDING':
      return action.paymentMethod === 'OUTGOING' ? 'On its way…' : 'Your payment has arrived and is on its way to the receiver…'
    case 'FORWARDED':
      return 'The receiver has it; one more moment…'
    case 'FAILED_FORWARD':
      return 'The receiver could not be paid. Your money is coming back…'
    case 'CANCELING':
      return 'Cancelling…'
    case 'PAID':
      // A withdrawal costs what routing really cost, not the most that it was allowed to.
      if (action.receipt) return `Sent: ${sats(action.result!.msat!)}. Routing cost ${sats(action.receipt.feeMsat)}.`
      return `Paid: ${sats(action.costMsat)}.`
    case 'FAILED':
      return `Not paid and not done. ${action.failure?.message ?? ''}${over ? '' : ' The next attempt may follow by itself.'}`
    case 'RETRYING':
      return 'The next attempt is being prepared…'
  }
}

function Invoice({ action, bolt11 }: { action: Action; bolt11: string }) {
  const { paying, says, unheard } = asked.use()[bolt11] ?? before(bolt11)
  const [copied, setCopied] = useState('Copy')
  const field = useRef<HTMLInputElement>(null)

  async function payWith(wallet: () => Promise<unknown>) {
    if (asked.get()[bolt11]?.paying) return // a double tap
    becomes(bolt11, { paying: true, says: 'Your wallet is paying…' })
    try {
      await wallet()
      becomes(bolt11, { paying: true, says: 'Your wallet says that it has paid. The payment has not been seen here yet…' })
    } catch (error) {
      becomes(bolt11, { paying: false, says: `The wallet did not pay: ${error instanceof Error ? error.message : error}` })
    }
  }

  async function copy() {
    field.current!.select()
    // Without TLS there is no clipboard.
    const done = navigator.clipboard ? await navigator.clipboard.writeText(bolt11).then(() => true, () => false) : document.execCommand('copy')
    setCopied(done ? 'Copied' : 'Not copied: the text below is selected')
  }

  return (
    <div class="invoice">
      {paying ? <p role="status">{says}</p> : <img class="qr" src={`/qr?text=${encodeURIComponent(bolt11.toUpperCase())}`} alt={`QR code of the invoice for ${sats(action.invoice!.amountMsat)}`} width="260" height="260" />}
      <Countdown until={action.invoice!.expiresAt} />
      <div class="ways">
        {demoWallet && (
          <button class="primary" autofocus disabled={paying} onClick={() => payWith(() => payWithDemo(demoWallet, bolt11))}>Pay with the demo wallet</button>
        )}
        {window.webln && (
          <button class="primary" disabled={paying} onClick={() => payWith(() => window.webln!.enable().then(() => window.webln!.sendPayment(bolt11)))}>Pay with this browser's wallet</button>
        )}
        {unheard && <button onClick={() => becomes(bolt11, { paying: false, says: '' })}>It did not, and will not</button>}
        {!paying && <a class="button" href={`lightning:${bolt11}`}>Open a wallet</a>}
        {!paying && <button onClick={copy}>{copied}</button>}
      </div>
      {!paying && <input ref={field} class="bolt11" readonly value={bolt11} aria-label="Invoice, to paste into a wallet" onFocus={(e) => e.currentTarget.select()} />}
      {!paying && says && <p class="bad" role="alert">{says}</p>}
    </div>
  )
}

async function payWithDemo(url: string, bolt11: string) {
  const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ bolt11 }) })
  if (!answer.ok) throw new Error((await answer.text()).trim())
}
