// sats formats an amount in msat for people, such as 1,250 sats.
export function sats(msat: string | number): string {
  const n = Number(msat) / 1000
  return `${n.toLocaleString('en', { maximumFractionDigits: 3 })} ${n === 1 ? 'sat' : 'sats'}`
}

export function ago(time: string): string {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000)
  for (const [unit, size] of [['d', 86_400], ['h', 3600], ['min', 60]] as const) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`
  }
  return 'just now'
}

export const count = (n: number, one: string) => `${n.toLocaleString('en')} ${n === 1 ? one : one + 's'}`
