import { count } from './format'
import type { Comment } from './items'
import { pay, usePendingSats } from './payments'

const kept = 'holdfast.zap'

// zapSats is how many sats one tap zaps.
export const zapSats = () => Number(localStorage.getItem(kept)) || 10
export const setZapSats = (sats: number) => localStorage.setItem(kept, String(sats))

export function zap(item: Pick<Comment, 'id'>, sats: number) {
  return pay({ what: `Zap of ${count(sats, 'sat')}`, mutation: 'zap', args: { item: ['ID!', item.id], sats: ['Sats!', sats] } })
}

// Zap shows what an item has received, and zaps it with one tap. What its payer still has to pay is shown only to them.
export function Zap({ item }: { item: Pick<Comment, 'id' | 'msat'> }) {
  const pending = usePendingSats(item.id)
  const total = Math.floor(Number(item.msat) / 1000)
  return (
    <button class="zap" onClick={() => void zap(item, zapSats())} aria-label={`Zap ${zapSats()} sats. It has ${count(total, 'sat')}${pending ? `, plus ${pending} of yours that are not paid yet` : ''}.`}>
      <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M9.5 1 3 9h4l-.8 6L13 6.8H8.7z" /></svg>
      <span class="total">{total.toLocaleString('en')}</span>
      {pending > 0 && <span class="pending" title="Yours, not paid yet">+{pending}</span>}
    </button>
  )
}
