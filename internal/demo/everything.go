package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// The community's actions that no other flow shows. Each is paid once.

// person signs somebody up. Each item makes the same writer's next one more expensive, so most writers here are new.
func (d *Demo) person(ctx context.Context, name string) (client, error) {
	key, err := SignUp(ctx, d.stack.URL(), name)
	return client{url: d.stack.URL(), key: key}, err
}

// buy asks for an action by its mutation and arguments, pays the invoice if there is one, and returns which states were
// seen. more are further fields of the result.
func (d *Demo) buy(ctx context.Context, c client, mutation, method, more, args string) (a action, got string, err error) {
	if method != "" {
		args += ", paymentMethod: " + method
	}
	result := ""
	if more != "" {
		result = " result { " + more + " }"
	}
	query := "mutation { " + mutation + "(" + args + ")" + strings.TrimSuffix(fields, "}") + result + " } }"
	a, err = c.act(ctx, query, nil)
	if err != nil || a.Invoice == nil {
		return a, a.State, err
	}
	last, err := d.payAndAwait(ctx, c, a)
	return a, a.State + ", " + last.State, err
}

// kindsOfItems writes one post of each kind, each by a different user.
func kindsOfItems(ctx context.Context, d *Demo) (string, error) {
	var all []string
	for _, item := range []struct{ by, mutation, args string }{
		{"linker", "createLink", `title: "A link", url: "https://example.org/"`},
		{"pollster", "createPoll", `title: "A poll", options: ["yes", "no"], price: 2`},
		{"patron", "createBounty", `title: "A bounty", bounty: 100`},
		{"employer", "createJob", `title: "A job", company: "Example"`},
		{"modest", "createBio", `bio: "Nobody in particular"`},
	} {
		c, err := d.person(ctx, item.by)
		if err != nil {
			return "", err
		}
		a, got, err := d.buy(ctx, c, item.mutation, "OPTIMISTIC", "item { id poll { options { id } } }", item.args)
		if err != nil {
			return "", fmt.Errorf("%s: %w", item.mutation, err)
		}
		if item.mutation == "createPoll" {
			d.option = a.Result.Item.Poll.Options[0].ID
		}
		all = append(all, strings.TrimPrefix(got, "PENDING, "))
	}
	return strings.Join(all, ", "), nil
}

func pollVote(ctx context.Context, d *Demo) (string, error) {
	_, got, err := d.buy(ctx, d.late, "pollVote", "OPTIMISTIC", "", `option: "`+d.option+`"`)
	return got, err
}

// commentWithFile uploads an image and writes a comment that carries it. It is anonymous, so the file costs a fee.
func commentWithFile(ctx context.Context, d *Demo) (string, error) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.stack.URL()+"/uploads", &file)
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "image/png")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var upload struct{ ID, URL string }
	if err := json.NewDecoder(answer.Body).Decode(&upload); err != nil || upload.ID == "" {
		return "", fmt.Errorf("upload: %s: %w", answer.Status, err)
	}
	anonymous := client{url: d.stack.URL()}
	a, got, err := d.buy(ctx, anonymous, "createComment", "PESSIMISTIC", "", `parent: "`+d.post+`", body: "Look at this", uploads: ["`+upload.ID+`"]`)
	if err != nil {
		return got, err
	}
	shown, err := http.Get(d.stack.URL() + upload.URL)
	if err != nil {
		return got, err
	}
	defer shown.Body.Close()
	if shown.StatusCode != http.StatusOK {
		return got, fmt.Errorf("the file of action %s is paid, and not shown: %s", a.ID, shown.Status)
	}
	return got, nil
}

// updateWithBoost changes a post in its first minutes, and raises its boost.
func updateWithBoost(ctx context.Context, d *Demo) (string, error) {
	_, got, err := d.buy(ctx, d.author, "updateItem", "PESSIMISTIC", "", `item: "`+d.post+`", body: "Changed and boosted", boost: 10`)
	return got, err
}

func simple(mutation, method, args string) func(ctx context.Context, d *Demo) (string, error) {
	return func(ctx context.Context, d *Demo) (string, error) {
		_, got, err := d.buy(ctx, d.late, mutation, method, "", strings.ReplaceAll(args, "POST", `"`+d.post+`"`))
		return got, err
	}
}

// receive pays a user who has no wallet, without signing in.
func receive(ctx context.Context, d *Demo) (string, error) {
	var me struct{ User struct{ ID string } }
	if err := d.author.do(ctx, &me, `{ me { user { id } } }`, nil); err != nil {
		return "", err
	}
	_, got, err := d.buy(ctx, client{url: d.stack.URL()}, "receive", "PESSIMISTIC", "", `user: "`+me.User.ID+`", msat: "21000"`)
	return got, err
}

// receiveDirectly pays a user who has a wallet, without signing in.
func receiveDirectly(ctx context.Context, d *Demo) (string, error) {
	user, _, err := d.byAddress.me(ctx)
	if err != nil {
		return "", err
	}
	a, got, err := d.buy(ctx, client{url: d.stack.URL()}, "receive", "P2P", "", `user: "`+user+`", msat: "100000"`)
	if err != nil || got != "PENDING_HELD, PAID" {
		return got, err
	}
	o, err := d.booked(ctx, a)
	return fmt.Sprintf("PAID, %d msat", o.msat), err
}

func satsDonation(ctx context.Context, d *Demo) (string, error) {
	a, got, err := d.buy(ctx, d.savers[1], "donate", "REWARD_SATS", "", "sats: 5")
	return got + " by " + a.Method, err
}

// changedForNothing changes the text of a post within the first minutes after it was paid.
func changedForNothing(ctx context.Context, d *Demo) (string, error) {
	a, got, err := d.buy(ctx, d.byAddress.client, "updateItem", "", "", `item: "`+d.byAddress.post+`", body: "In other words"`)
	return got + " by " + a.Method, err
}

// redeemInvite gives a newcomer credits from the payer's balance.
func redeemInvite(ctx context.Context, d *Demo) (string, error) {
	var invite struct{ Code string }
	if err := d.payer.do(ctx, &invite, `mutation { createInvite(giftCredits: 10, limit: 1) { code } }`, nil); err != nil {
		return "", err
	}
	newcomer, err := d.person(ctx, "newcomer")
	if err != nil {
		return "", err
	}
	var redeemed json.RawMessage
	if err := newcomer.do(ctx, &redeemed, `mutation($code: String!) { redeemInvite(code: $code) { __typename } }`, map[string]any{"code": invite.Code}); err != nil {
		return "", err
	}
	var me struct{ CreditsMsat string }
	err = newcomer.do(ctx, &me, `{ me { creditsMsat } }`, nil)
	return me.CreditsMsat + " msat", err
}

// territoryPaid founds a territory for a month, changes its billing to a year, and pays for the year after that.
func territoryPaid(ctx context.Context, d *Demo) (string, error) {
	var all []string
	for _, step := range []struct{ mutation, args string }{
		{"territoryCreate", `name: "commons", baseCostSats: 2, replyCostSats: 1, billing: MONTHLY`},
		{"territoryUpdate", `name: "commons", billing: YEARLY`},
		{"territoryBilling", `name: "commons"`},
	} {
		_, got, err := d.buy(ctx, d.author, step.mutation, "PESSIMISTIC", "", step.args)
		if err != nil {
			return "", fmt.Errorf("%s: %w", step.mutation, err)
		}
		all = append(all, strings.TrimPrefix(got, "PENDING_HELD, "))
	}
	if _, got, err := d.buy(ctx, d.author, "territoryCreate", "PESSIMISTIC", "", `name: "fallow", baseCostSats: 2, replyCostSats: 1, billing: MONTHLY`); err != nil {
		return got, err
	}
	// Its grace period ends at once. The service finds out within a minute, while the other flows go on.
	conn, err := pgx.Connect(ctx, d.stack.DSN())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	past := time.Now().UTC().Add(-time.Minute)
	begun := past.AddDate(0, -1, 0)
	err = db.New(conn).AgeTerritory(ctx, db.AgeTerritoryParams{Name: "fallow", Begun: &begun, Day: int16(past.Day()), Ended: &past})
	return strings.Join(all, ", "), err
}

// takeOver waits until the unpaid territory is stopped, and takes it over.
func takeOver(ctx context.Context, d *Demo) (string, error) {
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		var territory struct{ State string }
		if err := d.late.do(ctx, &territory, `{ territory(name: "fallow") { state } }`, nil); err != nil {
			return "", err
		}
		if territory.State == "STOPPED" {
			break
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return territory.State, ctx.Err()
		}
	}
	_, got, err := d.buy(ctx, d.late, "territoryUnarchive", "PESSIMISTIC", "", `name: "fallow", billing: MONTHLY`)
	return got, err
}
