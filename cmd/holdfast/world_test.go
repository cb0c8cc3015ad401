package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// command runs the program to its end.
func command(t *testing.T, env []string, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, env, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// settings are the environment of a program that uses this database.
func settings(pool *pgxpool.Pool, more ...string) []string {
	return append([]string{"HOLDFAST_DATABASE_URL=" + pool.Config().ConnString(), "HOLDFAST_LISTEN=127.0.0.1:0",
		"HOLDFAST_NETWORK=regtest", "HOLDFAST_DEVELOPMENT=1", "HOLDFAST_LOG_FORMAT=json"}, more...)
}

// server is holdfast serve, running.
type server struct {
	t      *testing.T
	url    string
	stop   func() (code int)
	mu     sync.Mutex
	errors bytes.Buffer
}

// serve starts holdfast serve and waits until it answers.
func serve(t *testing.T, env []string) *server {
	t.Helper()
	s := &server{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"serve"}, env, io.Discard, writer, func(e *environment) {
			e.readyFor, e.timelineEvery = 50*time.Millisecond, 50*time.Millisecond
		})
		writer.Close()
		ended <- code
	}()
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			s.mu.Lock()
			s.errors.Write(append(lines.Bytes(), '\n'))
			s.mu.Unlock()
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				address <- line.Address
			}
		}
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		select {
		case code := <-ended:
			return code
		case <-time.After(30 * time.Second):
			t.Error("the service does not stop")
			return -1
		}
	})
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Log(s.said())
		}
	})
	select {
	case a := <-address:
		s.url = "http://" + a
	case code := <-ended:
		ended <- code
		t.Fatalf("the service ended with %d:\n%s", code, s.said())
	case <-time.After(30 * time.Second):
		t.Fatal("the service does not start")
	}
	return s
}

func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errors.String()
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

func (s *server) get(path string) (status int, body string) {
	s.t.Helper()
	response, err := client.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// graphql sends an operation with this header, and returns the raw answer.
func (s *server) graphql(header http.Header, query string, variables map[string]any) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/graphql", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header = header.Clone()
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: client.Transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(answer)
}

// bearer is the header for a key; empty: the anonymous.
func bearer(key string) http.Header {
	if key == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + key}}
}

// keyOf makes a user, and returns their key.
func keyOf(t *testing.T, env []string, name string) string {
	t.Helper()
	var made struct{ Key string }
	code, out, said := command(t, env, "users", "add", name)
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	return made.Key
}

// await waits until ok returns true.
func (s *server) await(what string, ok func() bool) {
	s.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-again.C {
		if ok() {
			return
		}
	}
	s.t.Fatalf("waited in vain for %s", what)
}

// awaitReady waits until /readyz answers with this status.
func (s *server) awaitReady(want int) {
	s.t.Helper()
	s.await(fmt.Sprint("/readyz with ", want), func() bool {
		status, _ := s.get("/readyz")
		return status == want
	})
}

// newNode starts a simulated LND that is reachable over TCP, and returns the setting that names it.
func newNode(t *testing.T) (node *lndtest.Server, setting string) {
	t.Helper()
	return newNodeAt(t, time.Now)
}

func newNodeAt(t *testing.T, clock func() time.Time) (node *lndtest.Server, setting string) {
	t.Helper()
	return served(t, simnode.New("sim", clock))
}

// served has a simulated node be reachable as an LND, and returns the setting that names it.
func served(t *testing.T, n *simnode.Node) (node *lndtest.Server, setting string) {
	t.Helper()
	node = lndtest.New(t, n)
	config := node.Config()
	dir := t.TempDir()
	macaroon, err := hex.DecodeString(config.MacaroonHex)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.cert": config.TLSCertPEM, "macaroon": macaroon} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			inside, err := config.Dialer(context.Background(), "")
			if err != nil {
				outside.Close()
				continue
			}
			join(outside, inside)
		}
	}()
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	return node, "HOLDFAST_NODES=sim=localhost:" + port + ";tls=" + filepath.Join(dir, "tls.cert") + ";macaroon=" + filepath.Join(dir, "macaroon")
}

// join copies bytes both ways until either end closes.
func join(a, b net.Conn) {
	var once sync.Once
	end := func() { once.Do(func() { a.Close(); b.Close() }) }
	go func() { _, _ = io.Copy(a, b); end() }()
	go func() { _, _ = io.Copy(b, a); end() }()
}
