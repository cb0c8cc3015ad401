import { useEffect, useState } from 'preact/hooks'
import { ask, key, Refusal } from './api'
import { Store } from './store'

// changed is updated whenever something of ours was paid, written or revoked: then the data on the page is asked for
// again.
export const changed = new Store(0)
export const touch = () => changed.set(changed.get() + 1)

export type Asked<T> = { data: T | null; error: Refusal | null; again: () => void }

// useQuery asks. It asks again when its variables, the key or something of ours changes, and every so many milliseconds
// while the page is visible. The old data stays until the next answer has come; complete may ask for more before that.
export function useQuery<T>(query: string, variables: object = {}, every = 0, complete = (data: T): T | Promise<T> => data): Asked<T> {
  const [state, set] = useState<{ of: string; data: T | null; error: Refusal | null }>({ of: '', data: null, error: null })
  const [turn, setTurn] = useState(0)
  const who = key.use()
  const version = changed.use()
  const of = JSON.stringify([query, variables, who])
  useEffect(() => {
    if (!query) return
    let over = false
    ask<T>(query, variables).then(complete).then(
      (data) => over || set({ of, data, error: null }),
      (error) => over || set((before) => ({ of, data: before.of === of ? before.data : null, error })),
    )
    return () => void (over = true)
  }, [of, turn, version])
  useEffect(() => {
    if (!every) return
    const timer = setInterval(() => document.hidden || setTurn((n) => n + 1), every)
    return () => clearInterval(timer)
  }, [every])
  const current = state.of === of
  return { data: current ? state.data : null, error: current ? state.error : null, again: () => setTurn((n) => n + 1) }
}
