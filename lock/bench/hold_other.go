//go:build !linux

package main

import "time"

// nap sleeps for d, up to a millisecond longer.
func nap(d time.Duration) { time.Sleep(d) }
