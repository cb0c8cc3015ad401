import { ask, key } from './api'
import { changed } from './query'
import { Store } from './store'

type Me = { user: { id: string; name: string }; creditsMsat: string; satsMsat: string; unseenNotifications: number }

// me is whoever has signed in; null: nobody, or not known yet.
export const me = new Store<Me | null>(null)

export async function refresh() {
  if (!key.get()) return me.set(null)
  try {
    me.set((await ask<{ me: Me | null }>('{ me { user { id name } creditsMsat satsMsat unseenNotifications } }')).me)
  } catch {
    // The page says nothing of it: what is asked next will.
  }
}

key.listen(() => {
  me.set(null)
  void refresh()
})
changed.listen(() => void refresh())
setInterval(() => document.hidden || void refresh(), 15_000)
