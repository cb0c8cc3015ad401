package graph

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const codeMediaType paidaction.Code = "UNSUPPORTED_MEDIA_TYPE"

// A file is held in memory as a whole while it is received, and in pieces while it is sent.
const (
	uploadTime       = 2 * time.Minute  // for a file to arrive
	uploadPiece      = 256 << 10        // bytes
	uploadPatience   = 10 * time.Second // for a piece to arrive
	uploadsAtOnce    = 8                // in this process, of users, and as many of addresses
	uploadsOfOne     = 2                // of these, for one user or one address
	downloadPiece    = 64 << 10         // bytes
	downloadBytes    = 96 << 10         // in memory for each reader: a piece, and what net/http copies it by
	downloadPatience = 30 * time.Second // for a reader to take a piece
)

// files receives and sends uploads. They are not part of GraphQL: a file is a request's body, not a string in one.
type files struct {
	*door
	users, addresses *slots // apart: many addresses cost nothing, and would keep users from uploading
}

// sent is the answer to POST /uploads.
type sent struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Bytes       int64  `json:"bytes"`
	ContentType string `json:"contentType"`
	FeeSats     int64  `json:"feeSats"` // of the item that will carry it
}

// post receives a file: it is the whole body of the request.
func (f *files) post(w http.ResponseWriter, r *http.Request) {
	noStore(w)
	row, err := f.receive(w, r)
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	answer := sent{strconv.FormatInt(row.ID, 10), uploadURL(row.Token), row.Bytes, row.ContentType, paidaction.Msat(row.FeeMsat).CeilSats()}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", answer.URL)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

func noStore(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func uploadURL(token string) string { return "/uploads/" + token }

func (f *files) receive(w http.ResponseWriter, r *http.Request) (db.Upload, error) {
	// A page of another site cannot send these types without a preflight request: so no site can act from its visitors'
	// addresses.
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || !slices.Contains(community.UploadTypes, media) {
		return db.Upload{}, errMediaType()
	}
	if r.ContentLength > f.Prices.MaxUpload {
		return db.Upload{}, f.errTooLarge()
	}
	ctx, cancel := context.WithTimeout(r.Context(), uploadTime)
	defer cancel()
	s, err := f.authenticate(ctx, r.Header.Get("Authorization"), clientAddress(r, f.TrustedProxies))
	if err == nil {
		err = s.may(ScopeSpend)
	}
	if err == nil {
		err = f.meters.paying(s, f.Now())
	}
	if err != nil {
		return db.Upload{}, err
	}
	u, places := community.NewUpload{Owner: s.user}, f.users
	if s.user == nil {
		u.Client, places = f.Engine.ClientHash(s.client), f.addresses
	}
	if !places.take(s.who(), 1) {
		return db.Upload{}, refused(http.StatusServiceUnavailable, paidaction.CodeTryAgain, "Too many files are being uploaded. Try again in a moment.")
	}
	defer places.free(s.who(), 1)
	ctx = withSession(ctx, s)
	if err := community.CheckRoom(ctx, f.writes(), f.Prices, u.Owner); err != nil {
		return db.Upload{}, tooMany(err)
	}
	mayHave := func(bytes int64) error {
		return tooMany(community.CheckUnpaid(ctx, f.writes(), f.Prices, u.Owner, u.Client, bytes))
	}
	if err := mayHave(max(r.ContentLength, 0)); err != nil {
		return db.Upload{}, err
	}
	if u.Data, err = f.readFile(w, r); err != nil {
		return db.Upload{}, err
	}
	// Its sender need not have said how long it is. What is refused only once it is stored takes room until a vacuum.
	if err := mayHave(int64(len(u.Data))); err != nil {
		return db.Upload{}, err
	}
	if u.ContentType = http.DetectContentType(u.Data); !slices.Contains(community.UploadTypes, u.ContentType) {
		return db.Upload{}, errMediaType()
	}
	var row db.Upload
	err = f.inTx(ctx, func(tx pgx.Tx) error {
		row, err = community.StoreUpload(ctx, db.New(tx), f.Prices, u, f.Now().UTC(), rand.Reader)
		return err
	})
	return row, tooMany(err)
}

// readFile reads the body, up to the limit. It may take longer than other requests.
func (f *files) readFile(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, f.Prices.MaxUpload)
	data, err := io.ReadAll(&arriving{body: body, control: http.NewResponseController(w), end: time.Now().Add(uploadTime)})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, f.errTooLarge()
	case err != nil:
		return nil, refused(http.StatusRequestTimeout, codeTimeLimit, "The file did not arrive completely. Send it again.")
	}
	return data, nil
}

// arriving is a body of which each piece has its time, and all have one: else whoever sends a byte and no more would keep
// a place for as long as a large file may take.
type arriving struct {
	body    io.Reader
	control *http.ResponseController
	end     time.Time
	left    int // bytes of the piece that arrives
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	if a.left == 0 {
		a.left = uploadPiece
		_ = a.control.SetReadDeadline(earlier(time.Now().Add(uploadPatience), a.end)) // instead of the server's
	}
	n, err := a.body.Read(p[:min(len(p), a.left)])
	a.left -= n
	return n, err
}

func (f *files) errTooLarge() error {
	return &httpError{http.StatusRequestEntityTooLarge,
		paidaction.Errorf(codeBodyLimit, "A file can have at most %d bytes.", f.Prices.MaxUpload)}
}

func errMediaType() error {
	return refused(http.StatusUnsupportedMediaType, codeMediaType, "Send an image or a short video itself, with its type: "+strings.Join(community.UploadTypes, ", ")+".")
}

// tooMany gives a refusal of community the status 429.
func tooMany(err error) error {
	if refusal, ok := paidaction.AsRefusal(err); ok {
		return &httpError{http.StatusTooManyRequests, refusal}
	}
	return err
}

var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// get sends a file. Before it is paid for, and after its item is deleted, only its owner gets it. For an anonymous file
// the URL is the only proof of ownership. That ends when its item is deleted: by then everybody may know the URL.
func (f *files) get(w http.ResponseWriter, r *http.Request) {
	noStore(w)
	row, s, err := f.find(r)
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	if !f.unread.take(s.who(), downloadBytes) {
		f.refuse(w, r, tooMany(errUnread()))
		return
	}
	defer f.unread.free(s.who(), downloadBytes)
	h := w.Header()
	h.Set("Content-Type", row.Upload.ContentType)
	h.Set("Content-Disposition", "inline")
	h.Set("Content-Security-Policy", "sandbox") // however a browser shows it, it is not a page of ours
	h.Set("ETag", `"`+row.Upload.Token+`"`)
	if row.Public {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // each of many small parts would be a query: whoever wants several gets the whole file
	}
	http.ServeContent(w, r, "", row.Upload.CreatedAt, &download{ctx: withSession(r.Context(), s), q: f.reads(), upload: row.Upload,
		control: http.NewResponseController(w), end: time.Now().Add(f.Limits.Download)})
}

func (f *files) find(r *http.Request) (row db.UploadByTokenRow, s *session, err error) {
	missing := refused(http.StatusNotFound, paidaction.CodeNotFound, "There is no such file, or it is somebody else's and not paid yet.")
	token := r.PathValue("token")
	if !tokenPattern.MatchString(token) {
		return row, nil, missing
	}
	s, err = f.authenticate(r.Context(), r.Header.Get("Authorization"), clientAddress(r, f.TrustedProxies))
	if err == nil {
		err = f.meters.asking(s, f.Now())
	}
	if err != nil {
		return row, nil, err
	}
	row, err = f.reads().UploadByToken(withSession(r.Context(), s), token)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, nil, missing
	}
	if err != nil {
		return row, nil, fmt.Errorf("look up an upload: %w", err)
	}
	owner, viewer := row.Upload.OwnerID, s.viewer()
	theirs := owner == nil && !row.Deleted || owner != nil && viewer != nil && *viewer == *owner
	if !row.Public && !theirs {
		return row, nil, missing
	}
	return row, s, nil
}

// download reads an upload piece by piece: a slow reader costs the memory of one piece, and no database connection.
type download struct {
	ctx     context.Context
	q       *db.Queries
	upload  db.Upload
	control *http.ResponseController
	end     time.Time // however willing its reader is: whoever takes a piece now and then could keep it for long

	at    int64
	piece []byte
	from  int64 // where the piece begins
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	if d.at >= d.upload.Bytes {
		return 0, io.EOF
	}
	if d.at < d.from || d.at >= d.from+int64(len(d.piece)) {
		piece, err := d.q.UploadPiece(d.ctx, db.UploadPieceParams{UploadID: d.upload.ID, First: int32(d.at) + 1, Length: downloadPiece})
		if err != nil {
			return 0, fmt.Errorf("read an upload: %w", err)
		}
		if len(piece) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		d.piece, d.from = piece, d.at
		_ = d.control.SetWriteDeadline(earlier(time.Now().Add(downloadPatience), d.end)) // net/http ends it with the answer
	}
	n := copy(p, d.piece[d.at-d.from:])
	d.at += int64(n)
	return n, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Seek implements io.Seeker.
func (d *download) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += d.at
	case io.SeekEnd:
		offset += d.upload.Bytes
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	d.at = offset
	return offset, nil
}

func (uploads) URL(_ context.Context, u *db.UploadsOfItemsRow) (string, error) {
	return uploadURL(u.Token), nil
}
