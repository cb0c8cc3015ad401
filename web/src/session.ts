import { ask, key } from './api'
import { changed } from './query'
import { Store } from './store'

type Me = { user: { id: string; name: string }; creditsMsat: string; satsMsat: string; unseenNotifications: number }

// me is the user who has signed in; null: nobody has, or it is not known yet.
export const me = new Store<Me | null>(null)

export async function refresh() {
  const as = key.get()
  if (!as) return me.set(null)
  try {
    const answer = await ask<{ me: Me | null }>('{ me { user { id name } creditsMsat satsMsat unseenNotifications } }')
    if (key.get() === as) me.set(answer.me)
  } catch {
    // No message here: the next request will show one.
  }
}

key.listen(() => {
  me.set(null)
  void refresh()
})
changed.listen(() => void refresh())
setInterval(() => document.hidden || void refresh(), 15_000)
