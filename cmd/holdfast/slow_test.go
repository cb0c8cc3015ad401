package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// A client that opens a connection and then sends hardly anything loses it; others are served meanwhile.
func TestSlowSendersAreLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, settings(pgtest.New(t)))
	for name, c := range map[string]struct {
		sent   string
		within time.Duration
	}{
		"nothing":             {"", readHeaderTimeout},
		"half of the headers": {"POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n", readHeaderTimeout},
		"no body":             {"POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", readTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			begun := time.Now()
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			if status, _ := s.get("/healthz"); status != 200 {
				t.Errorf("others get %d", status)
			}
			const slack = 5 * time.Second // of a loaded machine
			_ = conn.SetReadDeadline(begun.Add(c.within + slack))
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("the connection is still open after %s: %v", time.Since(begun), err)
			}
		})
	}
}

// Headers of unlimited length are not read.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, settings(pgtest.New(t)))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n")
	for range 1000 {
		if err == nil {
			_, err = io.WriteString(conn, "X-More: "+strings.Repeat("x", 1000)+"\r\n")
		}
	}
	answer, _ := io.ReadAll(conn)
	if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 431") {
		t.Errorf("a megabyte of headers was taken: %.100s", answer)
	}
}

// Drawing a code counts as a request of its address.
func TestCodesAreCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, settings(pgtest.New(t), "HOLDFAST_RATE_ADDRESS=0.1")) // one may come at once
	if status, body := s.get("/qr?text=lnbc1"); status != http.StatusOK || !strings.Contains(body, "<svg") {
		t.Fatalf("the first code: %d %s", status, body)
	}
	if status, body := s.get("/qr?text=lnbc2"); status != http.StatusTooManyRequests || !strings.Contains(body, "Wait 10 s") {
		t.Errorf("the next code: %d %s", status, body)
	}
	if status, _ := s.get("/"); status != http.StatusOK {
		t.Errorf("the page is counted too: %d", status)
	}
}
