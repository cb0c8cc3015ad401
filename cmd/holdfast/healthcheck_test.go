package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	node, setting := newNode(t)
	s := serve(t, settings(pgtest.New(t), setting))
	s.awaitReady(http.StatusOK)
	at := "HOLDFAST_LISTEN=" + strings.TrimPrefix(s.url, "http://")
	ask := func(want int, word string, args ...string) {
		t.Helper()
		code, out, said := command(t, []string{at}, append([]string{"healthcheck"}, args...)...)
		if code != want || out != "" || !strings.Contains(said, word) || want == exitOK && said != "" {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out, said)
		}
	}
	ask(exitOK, "")
	ask(exitOK, "", "--ready")
	node.Node.SetSynced(false)
	s.awaitReady(http.StatusServiceUnavailable)
	ask(exitOK, "")
	ask(exitFailed, "503", "--ready")
	ask(exitFailed, "node sim: It is behind the chain", "--ready")
	s.stop()
	ask(exitFailed, "does not answer")
	ask(exitUsage, "HOLDFAST_LISTEN", "--listen=127.0.0.1:0")
}

func TestHealthcheckAsksOnLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{":8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "[::1]:8080",
		"localhost:80": "localhost:80", "10.1.2.3:8080": "10.1.2.3:8080"} {
		if got, err := askedAt(listen); got != want || err != nil {
			t.Errorf("%s: %s, %v", listen, got, err)
		}
	}
}
