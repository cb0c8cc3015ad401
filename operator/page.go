package operator

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Path is where the pages are served; JobsPath is where River's is, among them.
const (
	Path     = "/operator/"
	JobsPath = "/operator/jobs"
)

const actionsPage = 50 // of actions in a list

// PageConfig is what the pages show besides what the lookout sees. Everything but Nodes is required.
type PageConfig struct {
	Lookout *Lookout
	Pool    *pgxpool.Pool
	Key     []byte                                // the operator's password; if it is empty, nobody is let in
	Parts   func(context.Context) []Part          // of this process
	Nodes   func(context.Context) ([]Node, error) // through which this process sends payments; nil: it sends none
	Jobs    http.Handler                          // River's page, served below JobsPath
	Log     *slog.Logger
}

// Part is a part of this process, and its problem in words for people; empty if there is none.
type Part struct{ Name, Problem string }

// Node is a node through which payments leave, or could.
type Node struct {
	Name         string
	WhyNot       string // why it is given no payments at the moment; empty if it is
	InFlight     int    // payments of this process
	Slots        int
	OutboundMsat int64
	Height       uint32
}

//go:embed pages
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"thousands": thousands, "moment": moment, "age": age, "due": due, "text": func(b []byte) string { return string(b) },
}).ParseFS(files, "pages/*.html"))

type operatorPages struct{ PageConfig }

// NewHandler serves the operator's pages, below Path, to whoever has the key. They change nothing, except that jobs can
// be run again on River's page.
func NewHandler(c PageConfig) http.Handler {
	p := &operatorPages{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{$}", p.overview)
	mux.HandleFunc("GET "+Path+"actions", p.actions)
	mux.HandleFunc("GET "+Path+"actions/{id}", p.action)
	mux.HandleFunc("GET "+Path+"style.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "pages/style.css") })
	mux.Handle(JobsPath+"/", rivers(c.Jobs))
	return gate(c.Key, mux)
}

func (p *operatorPages) overview(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	shown := struct {
		At           time.Time
		Parts        []Part
		Look         *Look
		Problem      string
		Nodes        []Node
		NodesProblem string
	}{At: p.Lookout.Now(), Parts: p.Parts(ctx)}
	look, err := p.Lookout.Look(ctx)
	if err != nil {
		p.Log.WarnContext(ctx, "the operator's page cannot show the database", "error", err)
		shown.Problem = "the log says why."
	} else {
		shown.At, shown.Look = look.At, look
	}
	if p.Nodes != nil {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if shown.Nodes, err = p.Nodes(limited); err != nil {
			p.Log.WarnContext(ctx, "the operator's page cannot show the nodes", "error", err)
			shown.NodesProblem = "the log says why."
		}
	}
	p.show(w, r, http.StatusOK, "overview.html", shown)
}

// actions lists the actions in one open state, or the newest of all. With an id, it redirects to that action.
func (p *operatorPages) actions(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	if id := strings.TrimSpace(asked.Get("id")); id != "" {
		http.Redirect(w, r, Path+"actions/"+template.URLQueryEscaper(id), http.StatusSeeOther)
		return
	}
	q, ctx := db.New(p.Pool), r.Context()
	var shown struct {
		Title   string
		Actions []Action
		Before  int64 // where the next page begins; 0: there is none
	}
	if state := asked.Get("state"); state != "" {
		if !slices.Contains(openStates, paidaction.State(state)) {
			p.refuse(w, r, http.StatusNotFound, "There is no such open state. Actions lists the newest ones in every state.")
			return
		}
		rows, err := q.ActionsInState(ctx, db.ActionsInStateParams{State: state, Page: actionsPage})
		if err != nil {
			p.fail(w, r, err)
			return
		}
		shown.Title = fmt.Sprintf("Actions in %s, the %d with the oldest deadlines", state, actionsPage)
		for _, row := range rows {
			shown.Actions = append(shown.Actions, Action(row))
		}
	} else {
		before, err := strconv.ParseInt(asked.Get("before"), 10, 64)
		if err != nil {
			before = math.MaxInt64
		}
		if shown.Actions, err = Newest(ctx, q, "", before, actionsPage); err != nil {
			p.fail(w, r, err)
			return
		}
		shown.Title = "Newest actions"
		if len(shown.Actions) == actionsPage {
			shown.Before = shown.Actions[actionsPage-1].ID
		}
	}
	p.show(w, r, http.StatusOK, "actions.html", shown)
}

func (p *operatorPages) action(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		p.refuse(w, r, http.StatusNotFound, "Give the action's number, as in the log.")
		return
	}
	whole, err := ReadAction(r.Context(), db.New(p.Pool), id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		p.refuse(w, r, http.StatusNotFound, fmt.Sprintf("There is no action %d.", id))
	case err != nil:
		p.fail(w, r, err)
	default:
		p.show(w, r, http.StatusOK, "action.html", struct {
			Title string
			*WholeAction
		}{fmt.Sprintf("Action %d", id), whole})
	}
}

// Unbacked is the difference, in msat, between the credits in circulation and the sats that back them. It must be 0:
// otherwise something is very wrong.
func (l *Look) Unbacked() (msat int64) {
	for _, b := range l.Ledger {
		if b.Account == ledger.IssuedCredits || b.Account == ledger.BackingSats {
			msat += b.Msat
		}
	}
	return msat
}

func (p *operatorPages) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	p.show(w, r, status, "refusal.html", why)
}

func (p *operatorPages) fail(w http.ResponseWriter, r *http.Request, err error) {
	p.Log.WarnContext(r.Context(), "the operator's page cannot be shown", "page", r.URL.Path, "error", err)
	p.refuse(w, r, http.StatusServiceUnavailable, "The database could not be read: the log says why. Try again.")
}

// show writes a whole page, or none.
func (p *operatorPages) show(w http.ResponseWriter, r *http.Request, status int, name string, of any) {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, of); err != nil {
		p.Log.ErrorContext(r.Context(), "the operator's page cannot be written", "page", name, "error", err)
		http.Error(w, "The page could not be written: the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the client may be gone
}

// thousands writes a number for people.
func thousands(n any) string {
	var of int64
	switch n := n.(type) {
	case int64:
		of = n
	case *int64:
		of = *n
	}
	digits, sign := strconv.FormatInt(of, 10), ""
	if of < 0 {
		digits, sign = digits[1:], "−"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func moment(at any) string {
	switch at := at.(type) {
	case time.Time:
		return at.UTC().Format("2006-01-02 15:04:05 UTC")
	case *time.Time:
		if at != nil {
			return moment(*at)
		}
	}
	return "none"
}

func age(d time.Duration) string { return d.Round(time.Second).String() }

func due(d time.Duration) string {
	if d < 0 {
		return "in " + age(-d)
	}
	return age(d) + " ago"
}
