package community

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Kinds of items, as in the database.
const (
	itemPost    = "POST"
	itemComment = "COMMENT"
	itemLink    = "LINK"
	itemPoll    = "POLL"
	itemBounty  = "BOUNTY"
	itemJob     = "JOB"
	itemBio     = "BIO"
)

// isPost reports whether items of this kind have a title and are ranked in feeds.
func isPost(kind string) bool { return kind != itemComment && kind != itemBio }

const (
	maxURL = 2048
	maxJob = 140 // characters of a company's or a place's name
)

// JobArgs are what a job has beyond a post.
type JobArgs struct {
	Company  string `json:"company"`
	Location string `json:"location"`
}

// kinds are those that the arguments give fields for; a post has none of these fields.
func (a ItemCreateArgs) kinds() []string {
	var kinds []string
	for _, k := range []struct {
		kind  string
		given bool
	}{
		{itemComment, a.Parent != 0}, {itemLink, a.URL != nil}, {itemPoll, a.PollArgs != nil}, {itemBounty, a.Bounty != nil},
		{itemJob, a.JobArgs != nil}, {itemBio, a.Bio != nil},
	} {
		if k.given {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// kind is what the item is. checkKind refuses more than one.
func (a ItemCreateArgs) kind() string {
	if kinds := a.kinds(); len(kinds) > 0 {
		return kinds[0]
	}
	return itemPost
}

// text is what the item says; it may be empty if there is a title.
func (a ItemCreateArgs) text() string {
	if a.Bio != nil {
		return *a.Bio
	}
	return a.Body
}

// checkKind refuses what an item of its kind cannot have.
func (ic ItemCreate) checkKind(a ItemCreateArgs) error {
	if len(a.kinds()) > 1 {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "An item cannot be a %s at the same time.", strings.ToLower(strings.Join(a.kinds(), " and a ")))
	}
	least := 0
	if kind := a.kind(); !isPost(kind) {
		if a.Title != "" || a.Territory != "" || kind == itemBio && a.Body != "" {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "A %s has no title and no territory of its own.", strings.ToLower(kind))
		}
		least = 1
	} else {
		if err := checkText("title", strings.TrimSpace(a.Title), 1, maxTitle); err != nil {
			return err
		}
		if err := checkText("territory", a.Territory, 0, maxTerritory); err != nil {
			return err
		}
	}
	if err := checkText("text", strings.TrimSpace(a.text()), least, maxBody); err != nil {
		return err
	}
	// The text is stored with its surrounding spaces.
	if err := checkText("text", a.text(), least, maxBody); err != nil {
		return err
	}
	switch {
	case a.URL != nil:
		return checkURL(*a.URL)
	case a.PollArgs != nil:
		return ic.checkPoll(*a.PollArgs)
	case a.Bounty != nil:
		return ic.checkBounty(*a.Bounty)
	case a.JobArgs != nil:
		if err := checkText("company", strings.TrimSpace(a.Company), 1, maxJob); err != nil {
			return err
		}
		return checkText("location", strings.TrimSpace(a.Location), 0, maxJob)
	}
	return nil
}

// checkURL refuses addresses to which a click should not lead a reader.
func checkURL(text string) error {
	if err := checkText("address", text, 1, maxURL); err != nil {
		return err
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "A link needs a full address that begins with http:// or https://.")
	}
	if u.User != nil {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Everybody would see the user name or password in this address. Leave it out.")
	}
	return nil
}

// checkNow refuses what depends on the payer and the time.
func (a ItemCreateArgs) checkNow(payer *int64, now time.Time) error {
	if payer == nil && a.Bio != nil {
		return paidaction.Errorf(paidaction.CodeUnauthenticated, "Sign in to write a bio.")
	}
	if payer == nil && a.Bounty != nil {
		return paidaction.Errorf(paidaction.CodeUnauthenticated, "Sign in to promise a bounty: only its author can pay it.")
	}
	if a.PollArgs != nil && a.ClosesAt != nil && !a.ClosesAt.After(now) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "The poll must close in the future.")
	}
	return nil
}

// checkFirstBio refuses a second bio. The caller has locked the author.
func checkFirstBio(ctx context.Context, tx *paidaction.Tx) error {
	has, err := tx.DB.HasBio(ctx, tx.Payer)
	if err != nil {
		return fmt.Errorf("look for a bio: %w", err)
	}
	if has {
		return paidaction.Errorf(CodeBioExists, "You already have a bio. Edit it instead.")
	}
	return nil
}

// describe writes into the row what the item's kind adds.
func (a ItemCreateArgs) describe(row *db.InsertItemParams) {
	row.Kind, row.Body, row.Url = a.kind(), a.text(), a.URL
	if isPost(row.Kind) {
		row.Title = new(strings.TrimSpace(a.Title))
	}
	if a.PollArgs != nil {
		row.PollMsat, row.PollClosesAt = new(a.Price*1000), a.ClosesAt
	}
	if a.Bounty != nil {
		row.BountyMsat = new(*a.Bounty * 1000)
	}
	if a.JobArgs != nil {
		row.JobCompany, row.JobLocation = new(strings.TrimSpace(a.Company)), new(strings.TrimSpace(a.Location))
	}
}

// content identifies an item among its author's: items with equal content are duplicates, even at another price.
func (a ItemCreateArgs) content() []byte {
	content := fmt.Appendf(nil, "%s %d %q %q", a.kind(), a.Parent, strings.TrimSpace(a.Title), a.text())
	if a.URL != nil {
		content = fmt.Appendf(content, " %q", *a.URL)
	}
	if a.PollArgs != nil {
		content = fmt.Appendf(content, " %q", a.texts())
	}
	if a.Bounty != nil {
		content = fmt.Appendf(content, " %d", *a.Bounty)
	}
	if a.JobArgs != nil {
		content = fmt.Appendf(content, " %q %q", strings.TrimSpace(a.Company), strings.TrimSpace(a.Location))
	}
	return content
}
