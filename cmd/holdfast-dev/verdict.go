package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// verdict is the last line of a command that judges what it has run.
type verdict interface{ Passed() bool }

// conclude prints the last line. What has not passed ends the program with 1: scripts go by that.
func conclude(out io.Writer, v verdict) error {
	if err := json.NewEncoder(out).Encode(v); err != nil {
		return err
	}
	if !v.Passed() {
		return exitCode(1)
	}
	return nil
}

// exitCode ends the program with a code and without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// ended is the code that the program ends with after a command. It says what went wrong, unless the command has.
func ended(err error) int {
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	if err != nil {
		say("holdfast-dev: %v", err)
		return 1
	}
	return 0
}
