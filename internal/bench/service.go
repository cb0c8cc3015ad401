package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
)

const (
	startPatience = 30 * time.Second
	stopGrace     = 20 * time.Second
)

// service is a process of the measured program, as an operator runs it: with all roles, and every setting at its
// default except the database, the address, and the required secret. It needs no Lightning node, because balances can
// pay.
type service struct {
	program      string
	args         []string
	dir, address string
	env          []string // without the address
	server       *child.Server
}

// newService prepares a service. It does not inherit settings from this process's environment.
func newService(dir, program, dsn string, more ...string) (*service, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("not built yet (make build): %w", err)
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	s := &service{program: program, args: []string{"serve"}, dir: dir, env: environment(dsn)}
	s.env = append(s.env, "HOLDFAST_SECRET="+hex.EncodeToString(secret))
	s.env = append(s.env, more...)
	return s.beside()
}

// newHandler prepares the bare handler, which is started and asked as the service is.
func newHandler(dir string, command []string, dsn string) (*service, error) {
	s := &service{program: command[0], args: command[1:], dir: dir, env: environment(dsn)}
	return s.beside()
}

// environment is this process's own without its settings, and with a database.
func environment(dsn string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	return append(env, "HOLDFAST_DATABASE_URL="+dsn)
}

// beside prepares another process of the same service, which differs only in its address.
func (s *service) beside() (*service, error) {
	ports, err := freeport.Pick(1)
	if err != nil {
		return nil, err
	}
	other := *s
	other.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	other.server = child.NewServer(child.Command{Name: filepath.Base(s.program) + " " + s.args[len(s.args)-1], Path: s.program, Args: s.args, Dir: s.dir,
		Env: append(slices.Clip(s.env), "HOLDFAST_LISTEN="+other.address), Log: filepath.Join(s.dir, fmt.Sprintf("service-%d.log", ports[0]))})
	return &other, nil
}

// start starts the service, and returns once it is ready for requests.
func (s *service) start(ctx context.Context) error {
	if err := s.server.Start(); err != nil {
		return err
	}
	return s.server.AwaitReady(ctx, startPatience, func(ctx context.Context) error {
		return apiclient.Reach(ctx, http.DefaultClient, "http://"+s.address+"/readyz")
	})
}

func (s *service) stop() { s.server.Stop(stopGrace) }

// metric is the value of one of the service's metrics, given its name and labels; 0 if the service does not report it
// yet.
func (s *service) metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("/metrics: %s", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, lines.Err()
}

// mostMB is its peak resident memory.
func (s *service) mostMB() (float64, error) {
	kb, err := strconv.ParseFloat(strings.TrimSuffix(firstLine(fmt.Sprintf("/proc/%d/status", s.server.PID()), "VmHWM"), " kB"), 64)
	return kb / 1024, err
}

// reconcile runs the operator's command on everything. If something is broken, it returns an error.
func (s *service) reconcile(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.program, "reconcile", "--json", "--grace", "1s", "--again", "0s")
	cmd.Env = s.env
	var errors bytes.Buffer
	cmd.Stderr = &errors
	if out, err := cmd.Output(); err != nil {
		return fmt.Errorf("holdfast reconcile: %w\n%.4000s\n%.4000s", err, out, errors.Bytes())
	}
	return nil
}
