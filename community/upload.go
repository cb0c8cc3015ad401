package community

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// UploadTypes are the types of files that can be uploaded: those that a browser shows without running anything in them.
var UploadTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "video/mp4"}

const (
	maxUploads     = 10                                    // per item
	maxUploadBytes = 100_000_000                           // the most that MaxUpload may allow: a file is held in memory while it is sent
	maxUploadFee   = paidaction.MaxMsat / (maxUploads + 1) // so that the fees of an item sum up without a second check
)

// checkUploads refuses fees that fall as the bytes rise, and limits that let nothing in.
func (s Settings) checkUploads() error {
	if s.UploadSteps[0] <= 0 || !slices.IsSorted(s.UploadSteps[:]) || s.UploadFees[0] < 0 || !slices.IsSorted(s.UploadFees[:]) ||
		s.UploadFees[len(s.UploadFees)-1] > maxUploadFee || s.AnonymousUploadFee < 0 || s.AnonymousUploadFee > maxUploadFee {
		return errors.New("there are three steps of uploaded bytes with four fees, and both rise")
	}
	if s.MaxUpload < 1 || s.MaxUpload > maxUploadBytes || s.MaxUnpaidUploads < 1 || s.MaxUnpaidUploadBytes < s.MaxUpload ||
		s.MaxUnpaidInAll < s.MaxUnpaidUploadBytes || s.KeepUploads < time.Minute {
		return errors.New("an upload has a byte to 100 MB, is kept for a minute at least, and what may be unpaid holds one, and in all what one owner may have")
	}
	return nil
}

// NewUpload is a file that somebody sends.
type NewUpload struct {
	Owner       *int64 // nil is the anonymous
	Client      []byte // hash of an anonymous owner's address
	ContentType string // one of UploadTypes, found from the bytes themselves
	Data        []byte
}

// StoreUpload stores a file inside the caller's transaction. Its fee is fixed now, and falls due with the item that
// carries it. Others learn the file's token only from its owner, or from that item.
//
// Errors: TOO_MANY_UPLOADS.
func StoreUpload(ctx context.Context, q *db.Queries, s Settings, u NewUpload, now time.Time, random io.Reader) (db.Upload, error) {
	var drawn [24]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return db.Upload{}, fmt.Errorf("read randomness: %w", err)
	}
	row := db.InsertUploadParams{
		ID:    int64(binary.BigEndian.Uint64(drawn[:])>>1) | 1, // never zero
		Token: base64.RawURLEncoding.EncodeToString(drawn[8:]), OwnerID: u.Owner,
		Bytes: int64(len(u.Data)), ContentType: u.ContentType, FeeMsat: int64(s.AnonymousUploadFee), At: now,
	}
	if err := q.InsertUploadData(ctx, db.InsertUploadDataParams{UploadID: row.ID, Data: u.Data}); err != nil {
		return db.Upload{}, fmt.Errorf("store the bytes: %w", err)
	}
	// From here to the commit the owner's uploads run one after the other, so that the counts stay true.
	if u.Owner != nil {
		if _, err := q.LockUser(ctx, *u.Owner); err != nil {
			return db.Upload{}, fmt.Errorf("lock the owner: %w", err)
		}
	} else {
		row.ClientHash = u.Client
		if err := q.LockClient(ctx, u.Client); err != nil {
			return db.Upload{}, fmt.Errorf("lock the client: %w", err)
		}
	}
	if err := CheckUnpaid(ctx, q, s, u.Owner, u.Client, row.Bytes); err != nil {
		return db.Upload{}, err
	}
	if u.Owner != nil {
		day, err := q.UploadedSince(ctx, db.UploadedSinceParams{OwnerID: u.Owner, Since: now.Add(-24 * time.Hour)})
		if err != nil {
			return db.Upload{}, fmt.Errorf("sum up the day's uploads: %w", err)
		}
		row.FeeMsat = int64(s.feeAfter(day + row.Bytes))
	}
	stored, err := q.InsertUpload(ctx, row)
	if err != nil {
		return db.Upload{}, fmt.Errorf("insert the upload: %w", err)
	}
	return stored, nil
}

// CheckUnpaid refuses a file if it would exceed the owner's limits of unpaid files or bytes.
func CheckUnpaid(ctx context.Context, q *db.Queries, s Settings, owner *int64, client []byte, bytes int64) error {
	var left db.UnpaidOfUserRow
	var err error
	if owner != nil {
		left, err = q.UnpaidOfUser(ctx, owner)
	} else {
		var of db.UnpaidOfClientRow
		of, err = q.UnpaidOfClient(ctx, client)
		left = db.UnpaidOfUserRow(of)
	}
	if err != nil {
		return fmt.Errorf("count what is not paid: %w", err)
	}
	if left.Files >= s.MaxUnpaidUploads || left.Bytes+bytes > s.MaxUnpaidUploadBytes {
		return paidaction.Errorf(CodeTooManyUploads,
			"You have uploaded %d files that are not in a paid post or comment yet. Use them first, or wait until they are deleted.", left.Files)
	}
	return nil
}

// leastUpload is what a smaller file counts as in all: so few that are counted fill the room.
const leastUpload = 100_000 // bytes

// CheckRoom refuses a file while those that all users, or all who are anonymous, have not paid for take too much room. New
// accounts and addresses are easy to get, and each can have files without paying: without this bound they would fill the
// disk, and no payment could be written any more. Those sent at the same time can exceed it, by what they are.
func CheckRoom(ctx context.Context, q *db.Queries, s Settings, owner *int64) error {
	count := q.UnpaidOfAllUsers
	if owner == nil {
		count = q.UnpaidOfAllClients
	}
	taken, err := count(ctx, leastUpload)
	if err != nil {
		return fmt.Errorf("sum up what is not paid: %w", err)
	}
	if taken >= s.MaxUnpaidInAll {
		return paidaction.Errorf(CodeTooManyUploads, "No files are taken at the moment: too many are in no paid post or comment yet. Try again in some hours.")
	}
	return nil
}

// feeAfter is the fee of a file for a known user who has uploaded this many bytes within a day, including the file.
func (s Settings) feeAfter(day int64) paidaction.Msat {
	for i, most := range s.UploadSteps {
		if day <= most {
			return s.UploadFees[i]
		}
	}
	return s.UploadFees[len(s.UploadFees)-1]
}

func checkUploadIDs(ids []int64) error {
	if len(ids) > maxUploads {
		return errTooManyInItem()
	}
	sorted := slices.Sorted(slices.Values(ids))
	if len(slices.Compact(sorted)) < len(ids) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "An upload is named twice.")
	}
	return nil
}

func errTooManyInItem() error {
	return paidaction.Errorf(paidaction.CodeInvalidInput, "An item can have at most %d uploads.", maxUploads)
}

// uploadFee is what these uploads cost together. It locks them until the commit, so that they stay free for
// claimUploads.
func uploadFee(ctx context.Context, tx *paidaction.Tx, ids []int64) (paidaction.Msat, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	rows, err := tx.DB.LockUploads(ctx, db.LockUploadsParams{Ids: ids, OwnerID: tx.Payer})
	if err != nil {
		return 0, fmt.Errorf("lock the uploads: %w", err)
	}
	if len(rows) < len(ids) {
		return 0, paidaction.Errorf(paidaction.CodeNotFound, "You have no such upload, or no longer. Upload the file again.")
	}
	var fee paidaction.Msat
	for _, row := range rows {
		if row.ItemID != nil {
			return 0, paidaction.Errorf(paidaction.CodeDuplicate, "This upload belongs to another post or comment. Upload the file again.")
		}
		fee += paidaction.Msat(row.FeeMsat)
	}
	return fee, nil
}

// claimUploads attaches to an item uploads that uploadFee has checked in the same transaction. Only their owner sees
// them there.
func claimUploads(ctx context.Context, tx *paidaction.Tx, item int64, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	n, err := tx.DB.ClaimUploads(ctx, db.ClaimUploadsParams{Ids: ids, ItemID: &item, ActionID: &tx.Action})
	if err != nil {
		return fmt.Errorf("claim the uploads: %w", err)
	}
	if n != int64(len(ids)) {
		return fmt.Errorf("of %d uploads %d could be claimed", len(ids), n)
	}
	return nil
}

// showUploads shows everybody what this action has claimed.
func showUploads(ctx context.Context, tx *paidaction.Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if err := tx.DB.ShowUploads(ctx, db.ShowUploadsParams{ActionID: &tx.Action, At: &tx.Now}); err != nil {
		return fmt.Errorf("show the uploads: %w", err)
	}
	return nil
}

// releaseUploads releases what this action has claimed, so that its owner can use it elsewhere.
func releaseUploads(ctx context.Context, tx *paidaction.Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if err := tx.DB.ReleaseUploads(ctx, db.ReleaseUploadsParams{ActionID: &tx.Action, At: tx.Now}); err != nil {
		return fmt.Errorf("release the uploads: %w", err)
	}
	return nil
}

// SweepUploads deletes files that nobody has claimed for long enough, at most page of them, inside the caller's
// transaction, and returns how many.
func SweepUploads(ctx context.Context, q *db.Queries, s Settings, now time.Time, page int32) (files int, err error) {
	ids, err := q.UploadsToDelete(ctx, db.UploadsToDeleteParams{Until: now.Add(-s.KeepUploads), Page: page})
	if err != nil {
		return 0, fmt.Errorf("find uploads to delete: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	if err := q.DeleteUploads(ctx, ids); err != nil {
		return 0, fmt.Errorf("delete uploads: %w", err)
	}
	return len(ids), nil
}
