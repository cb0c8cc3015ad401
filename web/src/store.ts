import { useEffect, useState } from 'preact/hooks'

// Store holds one value that several parts of the page show.
export class Store<T> {
  private listeners = new Set<(value: T) => void>()
  constructor(private value: T) {}

  get(): T {
    return this.value
  }

  set(value: T) {
    this.value = value
    for (const listener of [...this.listeners]) listener(value)
  }

  // listen calls on after each change, until the returned function is called.
  listen(on: (value: T) => void): () => void {
    this.listeners.add(on)
    return () => void this.listeners.delete(on)
  }

  // use returns the value to a component, and renders it again when the value changes.
  use(): T {
    const [, draw] = useState({})
    const { value } = this
    useEffect(() => {
      if (this.value !== value) draw({}) // it has changed since the rendering
      return this.listen(() => draw({}))
    }, [this])
    return value
  }
}
