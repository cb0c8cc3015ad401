import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, key, Refusal } from './api'
import { Store } from './store'

// changed is updated whenever something of ours was paid, written or revoked: then the data on the page is asked for
// again.
export const changed = new Store(0)
export const touch = () => changed.set(changed.get() + 1)

// longest is after how many milliseconds a question is asked anew that has no answer: its connection may be gone without a
// word. Before that it is not: an answer that takes longer than the interval would be dropped each time.
const longest = 60_000

export type Asked<T> = { data: T | null; error: Refusal | null; again: () => void }

// useQuery asks. It asks again when its variables, the key or something of ours changes, and every so many milliseconds
// while the page is visible. The old data stays until the next answer has come; complete may ask for more before that.
export function useQuery<T>(query: string, variables: object = {}, every = 0, complete = (data: T): T | Promise<T> => data): Asked<T> {
  const [state, set] = useState<{ of: string; data: T | null; error: Refusal | null }>({ of: '', data: null, error: null })
  const [turn, setTurn] = useState(0)
  const who = key.use()
  const version = changed.use()
  const of = JSON.stringify([query, variables, who])
  const busy = useRef(0) // until when no further question is asked by itself
  useEffect(() => {
    if (!query) return
    let over = false
    busy.current = Date.now() + longest
    ask<T>(query, variables).then(complete).then(
      (data) => over || set({ of, data, error: null }),
      (error) => over || set((before) => ({ of, data: before.of === of ? before.data : null, error })),
    ).finally(() => over || (busy.current = 0))
    return () => void (over = true)
  }, [of, turn, version])
  useEffect(() => {
    if (!every) return
    const timer = setInterval(() => document.hidden || Date.now() < busy.current || setTurn((n) => n + 1), every)
    return () => clearInterval(timer)
  }, [every])
  const current = state.of === of
  return { data: current ? state.data : null, error: current ? state.error : null, again: () => setTurn((n) => n + 1) }
}
