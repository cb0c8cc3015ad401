package simulate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// session is PostgreSQL's side of a connection. It outlives the connection: it is rolled back and given to the next one
// that is opened. A new session would have to parse and plan every statement anew, which is a quarter of all work of a
// seed.
type session struct {
	raw net.Conn

	mu       sync.Mutex
	greeting []byte          // what PostgreSQL said when it was opened
	prepared map[string]bool // statements, by name
	parsing  []parsing       // sent and not yet answered
	awaited  int             // number of coming answers that end with ReadyForQuery
	open     bool            // something was sent that does not ask for ReadyForQuery
	refused  bool            // an error was among the answers since the last check
	lost     bool            // PostgreSQL has ended it
	status   byte            // of the transaction, 'I' if there is none; 0 until the greeting is over
	frame    frame
}

// parsing is a statement that is being prepared, or the end of a batch: after an error PostgreSQL skips the rest of the
// batch.
type parsing struct {
	name string
	end  bool
}

func newSession(raw net.Conn) *session {
	return &session{raw: raw, prepared: map[string]bool{}, awaited: 1}
}

// send sends whole messages. Instead of a statement that is prepared already it prepares an empty one without a name,
// so that the expected number of answers arrives.
func (s *session) send(b []byte) error {
	s.mu.Lock()
	out := make([]byte, 0, len(b))
	for message := range messages(b) {
		s.open = true
		switch message[0] {
		case 'P':
			name := untilNull(message[5:])
			if s.prepared[name] {
				name, message = "", []byte{'P', 0, 0, 0, 8, 0, 0, 0, 0}
			}
			s.parsing = append(s.parsing, parsing{name: name})
		case 'C':
			delete(s.prepared, untilNull(message[6:])) // closes a portal, which has no name, or a statement
		case 'Q', 'S':
			s.awaited++
			s.open = false
			s.parsing = append(s.parsing, parsing{end: true})
		}
		out = append(out, message...)
	}
	s.mu.Unlock()
	_, err := s.raw.Write(out)
	return err
}

// greet sends the first message, whose format differs from all others.
func (s *session) greet(b []byte) error {
	_, err := s.raw.Write(b)
	return err
}

// receive reads what PostgreSQL says.
func (s *session) receive(b []byte) (int, error) {
	n, err := s.raw.Read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == 0 {
		s.greeting = append(s.greeting, b[:n]...)
	}
	s.frame.read(b[:n], s.heard)
	s.lost = s.lost || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	return n, err
}

func (s *session) heard(kind, first byte) {
	switch kind {
	case '1':
		if name := s.parsing[0].name; name != "" {
			s.prepared[name] = true
		}
		s.parsing = s.parsing[1:]
	case 'E':
		s.refused = true
	case 'Z':
		s.awaited--
		s.status = first
		if end := slices.IndexFunc(s.parsing, func(p parsing) bool { return p.end }); end >= 0 {
			s.parsing = s.parsing[end+1:]
		}
	}
}

// finish waits for the answers to all that was sent, and reports whether none of them is an error.
func (s *session) finish() bool {
	s.mu.Lock()
	s.refused = false
	s.mu.Unlock()
	buffer := make([]byte, 4096)
	for {
		s.mu.Lock()
		awaited, refused := s.awaited, s.refused
		s.mu.Unlock()
		if awaited == 0 {
			return !refused
		}
		if _, err := s.receive(buffer); err != nil {
			return false
		}
	}
}

// rest rolls back what is not committed, and reports whether the session can be used again. PostgreSQL must not be
// working on a request.
func (s *session) rest() bool {
	_ = s.raw.SetDeadline(time.Now().Add(hung))
	if s.open || s.status == 0 {
		return false
	}
	s.finish()
	if s.status != 'I' && !s.lost {
		_ = s.send(question("ROLLBACK"))
		s.finish()
	}
	return !s.lost && s.status == 'I' && s.awaited == 0 && len(s.frame.head) == 0 && s.raw.SetDeadline(time.Time{}) == nil
}

// end ends the session, and returns once PostgreSQL has forgotten it.
func (s *session) end() {
	_ = s.raw.SetDeadline(time.Now().Add(hung))
	_, _ = s.raw.Write([]byte{'X', 0, 0, 0, 4})
	buffer := make([]byte, 4096)
	for {
		if _, err := s.raw.Read(buffer); err != nil {
			break
		}
	}
	_ = s.raw.Close()
}

// frame finds the messages in data that is read in pieces.
type frame struct {
	head  []byte // the kind and the size
	first byte   // of the body
	size  int    // of the body
	left  int    // of the body, still to come
}

func (f *frame) read(b []byte, heard func(kind, first byte)) {
	for len(b) > 0 {
		if missing := 5 - len(f.head); missing > 0 {
			n := min(missing, len(b))
			f.head, b = append(f.head, b[:n]...), b[n:]
			if len(f.head) < 5 {
				return
			}
			f.size = int(binary.BigEndian.Uint32(f.head[1:])) - 4
			f.left, f.first = f.size, 0
		}
		if f.left == f.size && len(b) > 0 && f.size > 0 {
			f.first = b[0]
		}
		n := min(f.left, len(b))
		f.left, b = f.left-n, b[n:]
		if f.left == 0 {
			heard(f.head[0], f.first)
			f.head = f.head[:0]
		}
	}
}

// messages are the messages of PostgreSQL's protocol in b. They are whole: pgx sends none in pieces.
func messages(b []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) >= 5 {
			size := int(binary.BigEndian.Uint32(b[1:5])) + 1
			if size > len(b) || !yield(b[:size:size]) {
				return
			}
			b = b[size:]
		}
	}
}

func untilNull(b []byte) string {
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}

// question is a simple query.
func question(sql string) []byte {
	b := append([]byte{'Q'}, binary.BigEndian.AppendUint32(nil, uint32(len(sql)+5))...)
	return append(append(b, sql...), 0)
}
