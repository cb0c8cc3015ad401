export { render, hydrate } from './render';
export {
	createElement,
	createElement as h,
	Fragment,
	createRef,
	cloneElement,
	isValidElement
} from './create-element';
export { BaseComponent as Component } from './component';
export { createContext } from './create-context';
export { createPortal } from './create-portal';
export { toChildArray } from './diff/children';
export { default as options } from './options';
