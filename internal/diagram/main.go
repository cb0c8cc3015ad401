// Diagram draws docs/state-machine.md from the table that the engine obeys. Run it from the top of the repository:
//
//	go run ./internal/diagram
package main

import (
	"fmt"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const file = "docs/state-machine.md"

func main() {
	if err := os.WriteFile(file, []byte(page(paidaction.Machine)), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "diagram: run it from the top of the repository:", err)
		os.Exit(1)
	}
}
