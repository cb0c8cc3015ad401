import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { Store } from './store'

export const path = new Store(location.pathname)

addEventListener('popstate', () => path.set(location.pathname))

// go opens another page of ours, and moves the keyboard focus to its beginning.
export function go(to: string) {
  history.pushState(null, '', to)
  path.set(location.pathname)
  scrollTo(0, 0)
  document.querySelector('main')?.focus()
}

type Props = { to: string; children: ComponentChildren; class?: string; 'aria-label'?: string }

export function Link({ to, children, ...more }: Props) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    go(to)
  }
  const here = path.use() === to
  return <a href={to} onClick={follow} aria-current={here ? 'page' : undefined} {...more}>{children}</a>
}

export function useTitle(title: string) {
  useEffect(() => {
    document.title = title ? `${title} · Holdfast` : 'Holdfast'
  }, [title])
}
