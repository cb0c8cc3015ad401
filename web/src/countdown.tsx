import { useEffect, useState } from 'preact/hooks'

// Countdown shows how long something is still valid.
export function Countdown({ until }: { until: string }) {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  const left = Math.max(0, Math.ceil((Date.parse(until) - now) / 1000))
  if (left === 0) return <p class="expiry">Expired</p>
  return <p class="expiry" role="timer">Expires in <time>{Math.floor(left / 60)}:{String(left % 60).padStart(2, '0')}</time></p>
}
