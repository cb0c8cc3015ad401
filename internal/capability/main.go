// Capability writes docs/actions.md, the table of how each action can be paid, from what the actions say of themselves.
// Run it from the top of the repository:
//
//	go run ./internal/capability
package main

import (
	"fmt"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

const file = "docs/actions.md"

func main() {
	if err := os.WriteFile(file, []byte(page(community.Actions(community.DefaultSettings()))), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "capability: run it from the top of the repository:", err)
		os.Exit(1)
	}
}
