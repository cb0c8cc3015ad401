import { key } from './api'
import { count } from './format'
import type { Comment } from './items'
import { pay, usePendingSats } from './payments'
import { Store } from './store'

const kept = 'holdfast.zap'
const usual = 10

// perTap is how many sats one tap zaps. Whoever uses this browser next has not chosen it.
export const perTap = new Store(Number(localStorage.getItem(kept)) || usual)

export function setPerTap(sats: number) {
  localStorage.setItem(kept, String(sats))
  perTap.set(sats)
}

key.listen(() => {
  localStorage.removeItem(kept)
  perTap.set(usual)
})

export function zap(item: Pick<Comment, 'id'>, sats: number) {
  return pay({ what: `Zap of ${count(sats, 'sat')}`, mutation: 'zap', args: { item: ['ID!', item.id], sats: ['Sats!', sats] } })
}

const sats = (n: number) => (n === 1 ? 'sat' : 'sats')

// Zap shows what an item has received, and what one tap zaps it with. What its payer still has to pay is shown only to
// them. Who hears it hears first what it does.
export function Zap({ item }: { item: Pick<Comment, 'id' | 'msat'> }) {
  const pending = usePendingSats(item.id)
  const tap = perTap.use()
  const total = Math.floor(Number(item.msat) / 1000)
  return (
    <button class="zap" onClick={() => void zap(item, tap)}>
      <span class="tap">Zap {tap.toLocaleString('en')}</span>
      <span class="unseen"> {sats(tap)}. It has </span>
      <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M9.5 1 3 9h4l-.8 6L13 6.8H8.7z" /></svg>
      <span class="total">{total.toLocaleString('en')}</span>
      <span class="unseen"> {sats(total)}{pending > 0 && ', plus '}</span>
      {pending > 0 && <span class="pending" title="Yours, not paid yet">+{pending}</span>}
      {pending > 0 && <span class="unseen"> of yours that are not paid yet</span>}
    </button>
  )
}
