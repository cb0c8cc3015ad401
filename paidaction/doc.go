// Package paidaction is the heart of Holdfast: an engine that lets any action of an application cost money, so that data
// and money always agree. The action happens exactly once if it was paid, and the money returns if it did not happen.
//
// An application implements Action, once per kind of thing that costs money, and hands the implementations to New. The engine imports no
// edge: what it needs of Lightning and of a job queue it names in small interfaces of its own.
package paidaction
