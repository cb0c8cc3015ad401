// Broken tries seeds until one fails. It is built with a seeded bug in it, to show that the simulation finds the bug.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes three arguments: how many seeds, the first one, and how many side by side.
func run() error {
	if err := child.FollowParent(syscall.SIGTERM); err != nil {
		return err
	}
	var numbers [3]int
	for i := range numbers {
		if len(os.Args) != len(numbers)+1 {
			return fmt.Errorf("usage: broken SEEDS SEED_START PARALLEL")
		}
		var err error
		if numbers[i], err = strconv.Atoi(os.Args[i+1]); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	summary, err := simulate.Run(ctx, simulate.Options{Seeds: numbers[0], Start: uint64(numbers[1]), Parallel: numbers[2], Stop: true, Out: os.Stdout})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(summary)
}
