package community_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// spec 02 §2.4: a link, poll, bounty or job is a post to the price; a bio costs its sat, and counts at nothing.
func TestPriceOfEachKind(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 1_000_000*sat, 0)
	territory(w, "bitcoin", w.User("founder", 0, 0))
	for _, c := range []struct {
		kind string
		want paidaction.Msat
	}{{"LINK", 10 * sat}, {"POLL", 100 * sat}, {"BIO", sat}, {"BOUNTY", 1000 * sat}, {"JOB", 10_000 * sat}} {
		args := itemsOfAllKinds[c.kind]
		if c.kind != "BIO" {
			args.Territory = "bitcoin"
		}
		if pa := create(w, user, args); pa.Cost != c.want {
			t.Errorf("a %s costs %d, want %d", c.kind, pa.Cost, c.want)
		}
	}
	for kind, want := range map[string]paidaction.Msat{"LINK": 10 * sat, "POLL": 10 * sat, "JOB": 10 * sat} {
		if pa := create(w, 0, itemsOfAllKinds[kind]); pa.Cost != want {
			t.Errorf("an anonymous %s costs %d, want %d", kind, pa.Cost, want)
		}
	}
}

// Writing more never costs less, whatever the settings, and nothing costs less than nothing.
func TestPriceRisesWithSpam(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := paidaction.Msat(rapid.Int64Range(1, int64(paidaction.MaxMsat)).Draw(t, "base"))
		spam := rapid.Int64Range(0, 30).Draw(t, "spam")
		less, errLess := community.Escalate(base, spam)
		more, errMore := community.Escalate(base, spam+1)
		switch {
		case errLess == nil && (less < base || less > paidaction.MaxMsat):
			t.Fatalf("%d × 10^%d is %d", base, spam, less)
		case errMore == nil && (errLess != nil || more <= less):
			t.Fatalf("%d after %d posts, %d after one more", less, spam, more)
		case errMore != nil && !errors.Is(errMore, paidaction.Refused(paidaction.CodeInvalidAmount)):
			t.Fatal(errMore)
		}
	})
}

func TestItemsHoldWhatTheirKindHas(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	closes := w.Clock.Now().Add(time.Hour)
	made := func(a community.ItemCreateArgs) int64 {
		w.Clock.Advance(11 * time.Minute)
		return w.Item(create(w, w.User(fmt.Sprintf("author_%d", w.Count(`SELECT count(*) FROM usr`)), 1000*sat, 0), a))
	}
	link := item(w, made(itemsOfAllKinds["LINK"]))
	if *link.Url != "https://example.org/a?b=c#d" || *link.Title != "a link" {
		t.Errorf("%+v", link)
	}
	poll := item(w, made(community.ItemCreateArgs{Title: "which?", PollArgs: &community.PollArgs{Options: []string{" b ", "a", "c"}, Price: 7, ClosesAt: &closes}}))
	if *poll.PollMsat != 7*sat || !poll.PollClosesAt.Equal(closes) {
		t.Errorf("%+v", poll)
	}
	var texts []string
	for _, o := range options(w, poll.ID, nil) {
		texts = append(texts, o.Text)
	}
	if strings.Join(texts, "|") != "b|a|c" {
		t.Errorf("the options are %q", texts)
	}
	if bounty := item(w, made(itemsOfAllKinds["BOUNTY"])); *bounty.BountyMsat != 100*sat || bounty.BountyPaidAt != nil {
		t.Errorf("%+v", bounty)
	}
	if job := item(w, made(itemsOfAllKinds["JOB"])); *job.JobCompany != "Acme" || *job.JobLocation != "anywhere" {
		t.Errorf("%+v", job)
	}
	bio := item(w, made(itemsOfAllKinds["BIO"]))
	if said := body(w, bio.ID); said != "I am who I am" || bio.Title != nil || bio.Territory != nil {
		t.Errorf("%q %+v", said, bio)
	}
	posts := seeItems(w)(nil).([]any)[1].([]db.NewPostsRow)
	for _, post := range posts {
		if post.ID == bio.ID {
			t.Error("a bio is among the posts")
		}
	}
	if len(posts) != 4 {
		t.Errorf("%d posts, want 4", len(posts))
	}
}

func TestKindsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 1000*sat, 0)
	post := w.Post(w.User("other", 10*sat, 0), "paid")
	actions, items := w.Count(`SELECT count(*) FROM paid_action`), w.Count(`SELECT count(*) FROM item`)
	link := func(url string) community.ItemCreateArgs { return community.ItemCreateArgs{Title: "x", URL: &url} }
	poll := func(price int64, options ...string) community.ItemCreateArgs {
		return community.ItemCreateArgs{Title: "x", PollArgs: &community.PollArgs{Options: options, Price: price}}
	}
	bounty := func(sats int64) community.ItemCreateArgs {
		return community.ItemCreateArgs{Title: "x", Bounty: &sats}
	}
	past, now := poll(1, "a", "b"), poll(1, "a", "b")
	past.ClosesAt, now.ClosesAt = new(w.Clock.Now().Add(-time.Hour)), new(w.Clock.Now())
	both := link("https://example.org")
	both.Bounty = new(int64(1))
	answer := poll(1, "a", "b")
	answer.Title, answer.Parent = "", post
	for name, c := range map[string]struct {
		args community.ItemCreateArgs
		code paidaction.Code
	}{
		"an empty address":       {link(""), paidaction.CodeInvalidInput},
		"a script":               {link("javascript:alert(1)"), paidaction.CodeInvalidInput},
		"data":                   {link("data:text/html,x"), paidaction.CodeInvalidInput},
		"a file":                 {link("file:///etc/passwd"), paidaction.CodeInvalidInput},
		"a path":                 {link("/relative"), paidaction.CodeInvalidInput},
		"no scheme":              {link("//example.org/x"), paidaction.CodeInvalidInput},
		"no host":                {link("https:///x"), paidaction.CodeInvalidInput},
		"a port alone":           {link("https://:443/"), paidaction.CodeInvalidInput},
		"no slashes":             {link("https:example.org"), paidaction.CodeInvalidInput},
		"a password":             {link("https://me:secret@example.org"), paidaction.CodeInvalidInput},
		"a user":                 {link("https://me@example.org"), paidaction.CodeInvalidInput},
		"a line break":           {link("https://example.org/\n"), paidaction.CodeInvalidInput},
		"a long address":         {link("https://example.org/" + strings.Repeat("x", 2029)), paidaction.CodeInvalidInput},
		"no options":             {poll(1), paidaction.CodeInvalidInput},
		"one option":             {poll(1, "a"), paidaction.CodeInvalidInput},
		"eleven options":         {poll(1, strings.Split("abcdefghijk", "")...), paidaction.CodeInvalidInput},
		"an empty option":        {poll(1, "a", " "), paidaction.CodeInvalidInput},
		"a long option":          {poll(1, "a", strings.Repeat("ü", 141)), paidaction.CodeInvalidInput},
		"an option twice":        {poll(1, "a", "b", " a"), paidaction.CodeInvalidInput},
		"free votes":             {poll(0, "a", "b"), paidaction.CodeInvalidAmount},
		"votes that pay":         {poll(-1, "a", "b"), paidaction.CodeInvalidAmount},
		"too dear":               {poll(1_000_001, "a", "b"), paidaction.CodeInvalidAmount},
		"overflowing":            {poll(1<<62, "a", "b"), paidaction.CodeInvalidAmount},
		"closed before":          {past, paidaction.CodeInvalidInput},
		"closed now":             {now, paidaction.CodeInvalidInput},
		"a poll as a comment":    {answer, paidaction.CodeInvalidInput},
		"no bounty":              {bounty(0), paidaction.CodeInvalidAmount},
		"a negative bounty":      {bounty(-1), paidaction.CodeInvalidAmount},
		"too large a bounty":     {bounty(10_000_001), paidaction.CodeInvalidAmount},
		"an overflowing bounty":  {bounty(1 << 62), paidaction.CodeInvalidAmount},
		"two kinds":              {both, paidaction.CodeInvalidInput},
		"a job with nobody":      {community.ItemCreateArgs{Title: "x", JobArgs: &community.JobArgs{Company: " "}}, paidaction.CodeInvalidInput},
		"a long company":         {community.ItemCreateArgs{Title: "x", JobArgs: &community.JobArgs{Company: strings.Repeat("x", 141)}}, paidaction.CodeInvalidInput},
		"a long location":        {community.ItemCreateArgs{Title: "x", JobArgs: &community.JobArgs{Company: "x", Location: strings.Repeat("x", 141)}}, paidaction.CodeInvalidInput},
		"a job without a title":  {community.ItemCreateArgs{JobArgs: &community.JobArgs{Company: "x"}}, paidaction.CodeInvalidInput},
		"an empty bio":           {community.ItemCreateArgs{Bio: new(" ")}, paidaction.CodeInvalidInput},
		"a long bio":             {community.ItemCreateArgs{Bio: new(strings.Repeat("x", 40_001))}, paidaction.CodeInvalidInput},
		"a bio with a title":     {community.ItemCreateArgs{Bio: new("x"), Title: "x"}, paidaction.CodeInvalidInput},
		"a bio in a territory":   {community.ItemCreateArgs{Bio: new("x"), Territory: "bitcoin"}, paidaction.CodeInvalidInput},
		"a bio with two texts":   {community.ItemCreateArgs{Bio: new("x"), Body: "y"}, paidaction.CodeInvalidInput},
		"a bio below a post":     {community.ItemCreateArgs{Bio: new("x"), Parent: post}, paidaction.CodeInvalidInput},
		"a comment with a title": {community.ItemCreateArgs{Title: "x", Body: "x", Parent: post}, paidaction.CodeInvalidInput},
	} {
		_, err := w.Try(user, community.KindItemCreate, c.args, "", "")
		if w.WantRefusal(err, c.code); t.Failed() {
			t.Fatal(name)
		}
	}
	for _, kind := range []string{"BIO", "BOUNTY"} {
		_, err := w.Try(0, community.KindItemCreate, itemsOfAllKinds[kind], "", "")
		w.WantRefusal(err, paidaction.CodeUnauthenticated)
	}
	w.WantBalance(ledger.UserCredits(user), 1000*sat)
	if w.Count(`SELECT count(*) FROM paid_action`) != actions || w.Count(`SELECT count(*) FROM item`) != items {
		t.Error("something refused left something behind")
	}
}

// The same again within the window is refused by what its kind holds, too; another address under the same title is another item.
func TestTheSameOfEachKindAgainIsRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 100_000_000*sat, 0)
	for _, args := range []community.ItemCreateArgs{
		{Title: "x"}, {Title: "x", URL: new("https://example.org/1")}, {Title: "x", URL: new("https://example.org/2")},
		{Title: "x", PollArgs: &community.PollArgs{Options: []string{"a", "b"}, Price: 1}}, {Title: "x", PollArgs: &community.PollArgs{Options: []string{"a", "c"}, Price: 1}},
		{Title: "x", Bounty: new(int64(1))}, {Title: "x", JobArgs: &community.JobArgs{Company: "x"}},
	} {
		create(w, user, args)
		if args.PollArgs != nil {
			args.Price++ // the same question at another price
		}
		_, err := w.Try(user, community.KindItemCreate, args, "", "")
		w.WantRefusal(err, paidaction.CodeDuplicate)
	}
}

func TestEachUserHasOneBio(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user, other := w.User("author", 0, 0), w.User("other", 100*sat, 0)
	bio := func(text string) community.ItemCreateArgs { return community.ItemCreateArgs{Bio: &text} }
	refused := func(user int64) {
		t.Helper()
		_, err := w.Try(user, community.KindItemCreate, bio("another"), "", "")
		w.WantRefusal(err, community.CodeBioExists)
	}
	pa := create(w, user, bio("mine"))
	refused(user) // the one that waits for its payment is there already
	if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); err != nil {
		t.Fatal(err)
	}
	second := create(w, user, bio("mine after all"))
	_, err := w.Engine.Retry(w.Ctx, enginetest.Caller(user), pa.ID, "", paidaction.Terms{}, nil)
	w.WantRefusal(err, community.CodeBioExists)
	w.WantState(pa.ID, paidaction.Failed)
	w.WantState(second.ID, paidaction.Pending)

	id := w.Item(create(w, other, bio("mine")))
	refused(other)
	w.WantBalance(ledger.UserCredits(other), 99*sat)
	mustExec(w, `UPDATE item SET deleted_at = $2 WHERE id = $1`, id, w.Clock.Now())
	create(w, other, bio("a new one"))
}

// Of two bios at once one is written, and of two that wait for their payments one is taken.
func TestTwoBiosAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("author", 100*sat, 0)
	errs := make(chan error)
	for i := range 4 {
		go func() {
			_, err := w.Try(user, community.KindItemCreate, community.ItemCreateArgs{Bio: new(fmt.Sprint(i))}, "", "")
			errs <- err
		}()
	}
	written := 0
	for range 4 {
		if err := <-errs; err == nil {
			written++
		} else {
			w.WantRefusal(err, community.CodeBioExists)
		}
	}
	if written != 1 || w.Count(`SELECT count(*) FROM item`) != 1 {
		t.Errorf("%d were written", written)
	}

	held := w.User("held", 0, 0)
	first := w.Pay(held, community.KindItemCreate, community.ItemCreateArgs{Bio: new("first")}, paidaction.Pessimistic)
	second := w.Pay(held, community.KindItemCreate, community.ItemCreateArgs{Bio: new("second")}, paidaction.Pessimistic)
	for _, pa := range []*paidaction.PaidAction{first, second} {
		payInvoice(w, pa)
		w.Drain()
	}
	w.WantState(first.ID, paidaction.Paid)
	if failed := w.WantState(second.ID, paidaction.Failed); failed.Failure.Code != community.CodeBioExists {
		t.Errorf("%v", failed.Failure)
	}
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 || len(w.Faults.Errors) != 0 {
		t.Errorf("%d deadlocks, faults %v", n, w.Faults.Errors)
	}
	w.WantConserved()
}
