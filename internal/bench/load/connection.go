package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection speaks only as much HTTP/1.1 as the generator needs, at a tenth of the cost of net/http: one request after
// the other, kept alive, answers with a length.
type connection struct {
	to     net.Conn
	from   *bufio.Reader
	answer []byte // the last answer; the next one reuses its memory
}

const (
	connectTimeout = 5 * time.Second
	longest        = 1 << 20 // bytes of an answer
)

func connect(ctx context.Context, address string) (*connection, error) {
	to, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{to: to, from: bufio.NewReader(to)}, nil
}

// close may be called on a connection that was never made.
func (c *connection) close() {
	if c != nil {
		_ = c.to.Close() // nothing is in flight any more
	}
}

var errLength = errors.New("an answer without a length")

// do sends a request and reads its answer, which is valid until the next call. An error closes the connection.
func (c *connection) do(ctx context.Context, request []byte) (status int, answer []byte, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.to.SetDeadline(deadline); err != nil {
			return 0, nil, err
		}
	}
	if _, err := c.to.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := c.from.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || len(line) < len("HTTP/1.1 200") {
		return 0, nil, fmt.Errorf("no HTTP: %.40q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("no HTTP: %.40q", line)
	}
	length, err := c.headers()
	if err != nil {
		return 0, nil, err
	}
	c.answer = append(c.answer[:0], make([]byte, length)...)
	_, err = io.ReadFull(c.from, c.answer)
	return status, c.answer, err
}

// headers reads up to the body, and returns the body's length.
func (c *connection) headers() (length int, err error) {
	length = -1
	for {
		line, err := c.from.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length > longest {
			return 0, errLength
		}
	}
	if length < 0 {
		return 0, errLength
	}
	return length, nil
}
