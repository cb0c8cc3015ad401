import { ask, key } from './api'
import { changed } from './query'
import { Store } from './store'

type Me = { user: { id: string; name: string }; creditsMsat: string; satsMsat: string; unseenNotifications: number }

// me is the user who has signed in; null: nobody has, or it is not known yet.
export const me = new Store<Me | null>(null)

async function look() {
  const as = key.get()
  if (!as) return me.set(null)
  const answer = await ask<{ me: Me | null }>('{ me { user { id name } creditsMsat satsMsat unseenNotifications } }')
  if (key.get() === as) me.set(answer.me)
}

export const refresh = () => look().catch(() => {}) // no message here: the next request will show one

// viewer is the id of whoever has signed in; null: nobody has.
export async function viewer(): Promise<string | null> {
  if (!me.get()) await look()
  return me.get()?.user.id ?? null
}

key.listen(() => {
  me.set(null)
  void refresh()
})
changed.listen(() => void refresh())
setInterval(() => document.hidden || void refresh(), 15_000)
