package graph

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// Whoever follows by server-sent events and takes nothing loses the connection: otherwise they would hold a goroutine, and what is to be sent,
// for as long as they like.
func TestReadersOfEventsWhoTakeNothing(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream := newStreamWriter(r.Context(), w, 50*time.Millisecond)
		defer stream.close()
		var err error
		for err == nil && r.Context().Err() == nil { // far more than the buffers on the way hold
			_, err = stream.Write(make([]byte, 1<<20))
		}
		ended <- err
	}))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("somebody who takes nothing is waited for")
	}
}
