package redis_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// TestLeaksNothing: a Locker that was closed leaves no goroutine, whatever it was doing.
func TestLeaksNothing(t *testing.T) {
	_, client, s := server(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	locktest.Closes(t, s)
}
