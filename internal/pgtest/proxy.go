package pgtest

import (
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Proxy is a way to a test's database on which connections can go silent or break, as on a network. It is safe for
// concurrent use.
type Proxy struct {
	URL string // the database through the proxy
	// Frozen receives a token for each connection that goes silent.
	Frozen chan struct{}

	server string
	over   chan struct{} // closed at the end of the test
	all    sync.WaitGroup

	mu     sync.Mutex
	freeze func(sent []byte) bool
	conns  map[net.Conn]bool // true: the client's side
}

// NewProxy makes a proxy to the database of a pool, until the end of the test.
func NewProxy(t testing.TB, pool *pgxpool.Pool) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	address.Host = listener.Addr().String()
	to := pool.Config().ConnConfig
	p := &Proxy{URL: address.String(), Frozen: make(chan struct{}, 1000), server: net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))),
		over: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.all.Go(func() { p.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		close(p.over)
		p.cut(func(bool) bool { return true })
		p.all.Wait()
	})
	return p
}

// Freeze makes a connection go silent at the first of its messages for which when is true; that message does not
// arrive. With nil no further connection goes silent. A silent connection stays so: neither side hears of the other
// again, not even of its end.
func (p *Proxy) Freeze(when func(sent []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeze = when
}

// Reset breaks all connections on the client's side. The server does not learn of it.
func (p *Proxy) Reset() { p.cut(func(client bool) bool { return client }) }

func (p *Proxy) cut(which func(client bool) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, client := range p.conns {
		if which(client) {
			_ = conn.Close()
			delete(p.conns, conn)
		}
	}
}

// keep registers a connection, or closes it if the test is over.
func (p *Proxy) keep(conn net.Conn, client bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.over:
		_ = conn.Close()
	default:
		p.conns[conn] = client
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.keep(client, true)
		p.keep(server, false)
		var silent atomic.Bool
		p.all.Go(func() {
			pass(server, client, func([]byte) bool { return silent.Load() })
			if !silent.Load() {
				_ = client.Close()
			}
		})
		p.all.Go(func() { // the server learns only at the end of the test that the client is gone
			pass(client, server, func(sent []byte) bool { return p.freezes(sent, &silent) })
		})
	}
}

// pass forwards what one side sends, until that side ends or drop says to stop.
func pass(from, to net.Conn, drop func(sent []byte) bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil || drop(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) freezes(sent []byte, silent *atomic.Bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freeze == nil || !p.freeze(sent) {
		return false
	}
	silent.Store(true)
	p.Frozen <- struct{}{}
	return true
}
