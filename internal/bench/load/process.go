package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
)

// Serve is the generator's process: it reads a plan, runs it, and writes the result. Both are JSON. The plan is not
// passed as arguments, because keys are secrets.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var p Plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	r, err := Run(ctx, p)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// Start runs a plan in a process of its own, with a command that calls Serve, and waits for its end.
func Start(command *exec.Cmd, p Plan) (r Result, err error) {
	plan, err := json.Marshal(p)
	if err != nil {
		return r, err
	}
	var errors bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(plan), &errors
	out, err := command.Output()
	if err != nil {
		return r, fmt.Errorf("the load generator: %w\n%s", err, errors.Bytes())
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("the load generator says nothing that can be read: %w", err)
	}
	return r, nil
}
