package reconcile

// How to begin a repair without making it worse.
const (
	bug     = "This is a bug. Stop every process with the role worker, keep a copy of the database, and "
	byHand  = "Show it with `holdfast actions show {action}`. "
	outside = "Somebody changed rows past the service, or a restore lacks some. Compare with the last backup; "
)

// Invariant 1.
var (
	balanceDiffers = kind(1, "balance", "BreaksOfConservation, over all accounts; only holdfast reconcile",
		"An account's balance, with what is not folded in yet, is not the sum of its postings.",
		bug+"compare the account's postings with account.balance and balance_delta in the last good backup; the postings are what happened, so raise or lower account.balance until it agrees with them, and leave balance_delta alone.")
	totalDiffers = kind(1, "total", "BreaksOfTotals, over all accounts",
		"All accounts of an asset together do not hold zero: money has come out of nothing, or is gone.",
		bug+"run `holdfast reconcile`, which names the accounts.")
	belowZero = kind(1, "below-zero", "BreaksOfConservation and UsersBelowZero, over all accounts",
		"A user owes.", bug+"look at the user's last debits; the constraint user_balance_not_negative refuses this, so it was dropped.")
	nobodys = kind(1, "nobody", "ReceivedByNobody, over all that is not folded in yet",
		"An account has received money and does not exist: nobody can spend it.",
		bug+"make its row in account, with a balance of 0, if its user exists; else move the money by a posting of no action to whom it belongs, with the row made for that (docs/reconcile.md, booking by hand).")
	accountGone = kind(1, "account", "MissingAccounts; users' only by holdfast reconcile",
		"An account of the system, or of a user, is not there: what was in it is gone, and nobody can pay from it or be paid.",
		"Stop every process. "+outside+"put its row back into account, with the balance that makes it agree with its postings.")
	inUnused = kind(1, "unused", "UnusedAccounts", "Money is in an account of the system to which nothing is ever booked: nobody can be paid from it.",
		bug+"look for the postings to that account, and move the money by a posting of no action to whom it belongs (docs/reconcile.md, booking by hand).")
	routingDiffers = kind(1, "routing", "SetAside, over all payments that are not at their end",
		"Routing sats are not what is set aside for the payments under way: some were taken that a payment needs, or belong to none.",
		bug+"look for postings from or to routing sats of no action, or of one that pays nothing out, and undo them by a posting of no action with the reason 'put right by hand' (docs/reconcile.md, booking by hand).")
	notBacked = kind(1, "backing", "Balances of both accounts",
		"More or fewer credits are in circulation than sats back them.",
		bug+"look for the purchase or the spending of credits whose two transfers differ.")
	notCleared = kind(1, "clearing", "Balances of both accounts",
		"Money that only passes through is still in a clearing account.", bug+"look for the last postings to that account: one transfer of a pair is missing.")
	rewardDiffers = kind(1, "reward", "BreaksOfRewards; only holdfast reconcile",
		"A reward was not posted once and in full, or money left the pool and is nobody's reward.",
		bug+"compare the day's rows of reward with its postings before anybody is paid again. "+
			"If an operator took it, give that posting a reason that ends with 'by hand' (docs/reconcile.md, changing rows by hand).")
	rewardDayDiffers = kind(1, "reward-day", "BreaksOfRewardDays; only holdfast reconcile",
		"A day's rewards are not what it says it paid, or more than was in its pool.",
		bug+"compare the rows of reward and of reward_day with the last good backup.")
	caughtByRest = kind(1, "rest", "CaughtByRest",
		"Rows of actions are where only postings of no action belong: there was no partition for them, or their actions are archived.",
		"A process with the role worker makes partitions ahead of need, and moves such rows there; its log says why it cannot. "+
			"If there are more than payments may wait for stop every process, and call SET statement_timeout = 0; SELECT make_action_ranges(10000000, 2); as the service's role of PostgreSQL. "+
			"If the action is archived, was it booked by hand? Then give the posting a reason that ends with 'by hand' (docs/reconcile.md, changing rows by hand). "+
			"If it was not this is a bug: keep a copy of the database, and look for what still writes to it.")
	rangeDiffers = kind(1, "range", "action_range and pg_inherits",
		"A partition of the history or the postings is not there, or is there of a range that counts as archived; or a range does not follow the one before, or is archived before it: what archived actions did is not checked.",
		outside+"if its range was not archived set archived_at, steps and postings of its row in action_range to NULL; put back the row, or the table, that is missing. Ranges abut, from action 1 on, and those that are archived come first.")
	moneyUnguarded = kind(1, "guard", "pg_trigger and pg_constraint",
		"What keeps postings, rewards or sums of what is archived from being changed or deleted, balances from being lost, or users from owing, is gone or switched off; or any other trigger of a table is switched off.",
		"Switch the trigger on again (ALTER TABLE … ENABLE TRIGGER), or make what is gone again as the migration of its table does. Then run `holdfast reconcile`.")
)

// Invariant 2.
var (
	noSource = kind(2, "no-source", "BreaksOfPayment",
		"An action is PAID, and nothing was taken for it.", byHand+bug+"once its cause is known book what was paid, as a posting of the action (docs/reconcile.md, booking by hand).")
	manySources = kind(2, "several-sources", "BreaksOfPayment",
		"An action was paid from more than one account.", byHand+bug+"give back what was taken too much, as a posting of the action with the reason 'given back by hand' (docs/reconcile.md, booking by hand).")
	wrongAmount = kind(2, "wrong-amount", "BreaksOfPayment",
		"What was taken is not the price, or not what arrived: onPaid ran twice, or half.", byHand+bug+"if too little was taken book the difference as a posting of the action; if too much, give it back as one with the reason 'given back by hand' (docs/reconcile.md, booking by hand).")
	othersMoney = kind(2, "other-source", "BreaksOfPayment",
		"An action was paid from an account that is not its payer's, or not the one that its method says.", byHand+bug+"give whose account it was their money back, as a posting of the action with the reason 'given back by hand', and take it from the payer to the same account (docs/reconcile.md, booking by hand).")
	othersReturn = kind(2, "other-receiver", "BreaksOfReturns",
		"What is the payer's own went elsewhere: what was overpaid or bought, or what a withdrawal had set aside and did not need.",
		byHand+bug+"take it from where it went to a clearing account by a posting of no action, and from there to the payer by one of the action, both with the reason 'put right by hand' (docs/reconcile.md, booking by hand).")
	charged = kind(2, "charged", "BreaksOfPayment",
		"An action is not PAID, and money was taken for it.", byHand+bug+"give the money back by a posting of the action in the opposite direction, with the reason 'given back by hand' (docs/reconcile.md, booking by hand).")
	endedWrong = kind(2, "ended", "BreaksOfPayment",
		"An action has ended and its end, which runs onPaid or onFail, was not taken exactly once; or it has not ended and was.",
		byHand+bug+"undo what the second onPaid or onFail did, and take its step out of action_history (docs/reconcile.md, changing rows by hand).")
	notRefunded = kind(2, "not-refunded", "BreaksOfRelay",
		"A withdrawal has failed, and not all of what was set aside for it went back.", byHand+bug+"give the rest back from routing sats, as a posting of the action with the reason 'refund by hand' (docs/reconcile.md, booking by hand).")
)

// Invariant 3.
var (
	countsUnpaid = kind(3, "counts", "BreaksOfEffects",
		"What an action did counts, and the action was not paid.", byHand+bug+"mark its row as the action's state says.")
	paidUncounted = kind(3, "does-not-count", "BreaksOfEffects",
		"An action is PAID, and what it did does not count.", byHand+bug+"mark its row as PAID.")
	notUndone = kind(3, "not-undone", "BreaksOfEffects",
		"An action has failed, and what it did was not undone.", byHand+bug+"mark its row as FAILED.")
	undoneEarly = kind(3, "undone", "BreaksOfEffects",
		"What an action did was undone, and the action has not failed.", byHand+bug+"mark its row as the action's state says.")
	effectMissing = kind(3, "missing", "MissingEffects",
		"An action is PAID, and what it was paid for is not there.", byHand+bug+"make what is missing. For what cannot be made give the payer its price, from loss sats to their sats by a posting of no action (docs/reconcile.md, booking by hand).")
	otherAmount = kind(3, "amount", "BreaksOfEffects and BreaksOfInvoices",
		"What an action did, or its invoice, is over another amount than its price, or a boost over another than its arguments say.", byHand+bug+"compare with its arguments and its postings, and set the row's amount to what was paid for.")
	effectTwice = kind(3, "twice", "ItemsTwice",
		"An action has made more than one item.", byHand+bug+"delete the item that its result does not name, with what refers to it alone.")
	othersWork = kind(3, "author", "BreaksOfEffects",
		"What an action made, such as an item or a zap, is not its payer's.", byHand+outside+"set the author, or the user, of its row to payer_id of the action.")
	otherItem = kind(3, "other-item", "BreaksOfEffects",
		"What an action made, or what it was about, is another item than its result names.", byHand+outside+"its arguments name what it was about, and the item's own row what was made: set the row, or the result, right.")
	otherOption = kind(3, "option", "BreaksOfVotesInPolls",
		"A vote in a poll counts for another option than its payer chose, or for one of another poll.",
		byHand+outside+"its arguments name the option: set option_id of its row in poll_vote, and then votes of both options in poll_option, right.")
	otherVote = kind(3, "vote", "BreaksOfVotes",
		"What rewards are divided by is not what was zapped: a weighted vote has no paid zap, or a paid zap of somebody known has no vote; or the vote is for another item or author, goes the other way, or counts on another day or in another asset than the zap.",
		byHand+outside+"set the row of vote_event right before the day's rewards are paid: item_id and the direction as those of its row in zap, author_id as the item's, at as changed_at of the action, and credits as whether it was paid with credits. "+
			"Of an action without a paid zap it is to be deleted.")
	usedWrong = kind(3, "uses", "BreaksOfInvites; InvitesOfNobody only by holdfast reconcile",
		"An invite counts other uses than people have redeemed it: it lets in more than its limit, or fewer.", outside+"set used of the invite's row to the number of its rows in invite_redemption.")
	bountyUnmarked = kind(3, "bounty", "UnmarkedBounties",
		"A bounty was zapped to an answer by its owner, and does not count as paid: it would be paid again.", byHand+outside+"put its row back into bounty_payment, with the zap that reached the amount.")
	countedWrong = kind(3, "counter", "BreaksOfCounters, over all items; only holdfast reconcile",
		"A counter of an item, with what is not folded in yet, is not what its paid zaps, votes, boosts and comments come to; an option of a poll has other votes than are counted; or the item has no counters.",
		bug+"the rows are what happened: raise or lower the counter in the item's row of item_count, or the option's of poll_option, until it agrees with them. zap_total is a sum of rows of zap for each person, and vote_micros one of vote_event: look there first which is right.")
	otherListing = kind(3, "listing", "BreaksOfListing, over all items; only holdfast reconcile",
		"What feeds choose an item by is not as the item is: everybody who sees it misses it in the feeds, or it is in those of another territory, or at another time.",
		outside+"Set the state of these rows of item to what it is: the trigger follow_item sets their rows of item_count right.")
	billedLate = kind(3, "territory", "BreaksOfTerritories, over all territories; only holdfast reconcile",
		"A territory is billed later than what was paid for it ends, or than its grace does: until then it is run for nothing.",
		outside+"set bill_at of its row in territory to paid_until or, in its grace, to grace_until.")
	fileLost = kind(3, "file", "LostFiles, over all files; only holdfast reconcile",
		"What was in a file that somebody has sent is gone.", outside+"put the file's row back into upload_data.")
	effectsUnguarded = kind(3, "guard", "pg_index", "A unique index that makes one action do one thing, or one person vote once, is gone or not valid; or the trigger follow_item is gone or switched off.",
		"Mend what the other breaks of this invariant name, and make the index or the trigger again as its migration does, or switch the trigger on (ALTER TABLE … ENABLE TRIGGER).")
)

// Invariant 4.
var (
	invoiceTwice = kind(4, "two-invoices", "BreaksOfHashes",
		"Two invoices of ours have one payment hash: who learns one preimage can take both payments.",
		"Cancel the newer one at its node at once (lncli cancelinvoice). "+bug+"show both with `holdfast actions show {action}` and `holdfast actions show {other}`.")
	paidTwice = kind(4, "two-payments", "BreaksOfRelay",
		"Two outgoing payments of one hash are under way or made.",
		"Stop every process with the role worker at once: it may be paid twice. `holdfast relay show {action}` names the nodes; ask each of them (lncli trackpayment).")
	twoClaims = kind(4, "two-claims", "ClaimsOfHashes",
		"More than one claim on a hash may have been paid.",
		"Stop every process with the role worker at once: it may be paid twice. `holdfast relay show {action}` lists the claims; ask each node (lncli trackpayment).")
	paidElsewhere = kind(4, "two-nodes", "RecordedHashes, for every payment that a node lists",
		"A node has paid, or may pay, a hash that another node has paid or may pay.",
		"Drain both nodes: `holdfast nodes drain {node}`. `holdfast relay show {action}` names the other. What was paid twice is a loss unless the receiver gives it back.")
	ownInvoice = kind(4, "own-invoice", "BreaksOfRelay",
		"A payment that leaves has the hash of an invoice of ours that is another action's: it would be paid with our own money.",
		"Drain its node: `holdfast nodes drain {node}`. "+byHand+bug+"look at the payment with `holdfast relay show {action}`.")
	notNoted = kind(4, "not-noted", "UnnotedHashes",
		"Somebody else's hash is not noted as used, and could be used again for the other purpose.",
		byHand+outside+"put the hash back into foreign_hash.")
	hashUnguarded = kind(4, "guard", "pg_index and pg_trigger",
		"A unique index that allows one use of a hash is gone or not valid; or a trigger that keeps the rows which say how it was used is gone or switched off.",
		"Stop every process with the role worker, mend what the other breaks of this invariant name, and make the index or the trigger again as its migration does, or switch the trigger on (ALTER TABLE … ENABLE TRIGGER).")
)

// Invariant 5.
var (
	unsaid = kind(5, "unsaid", "BreaksOfRelay",
		"The receiver has given the preimage, and the action is not on its way to PAID: the payer's payment may be given back.",
		"Stop every process with the role worker at once. `holdfast relay show {action}`; settle the payer's invoice at its node with the preimage in relay_payment (lncli settleinvoice) while its payment is held.")
	givenUp = kind(5, "given-up", "BreaksOfRelay",
		"The payment to the receiver was given up, or is not made yet, and the action counts as paid on.",
		byHand+bug+"ask the node that `holdfast relay show {action}` names what became of the payment (lncli trackpayment).")
	stillLive = kind(5, "live", "BreaksOfRelay",
		"The action gives the payer's money back, and the payment to the receiver was not given up.",
		"Drain its node: `holdfast nodes drain {node}`. `holdfast relay show {action}`; if the receiver is paid in the end, the amount is a loss.")
	notSettled = kind(5, "not-settled", "BreaksOfRelay, with the height of the node",
		"The receiver was paid, and the payer's payment is not settled though its safety height has passed.",
		"At once: is the node {node} up? `holdfast actions requeue {action}`, or settle it there by hand (lncli settleinvoice). If the node has given it back the loss books itself; if it lost its data: `holdfast actions write-off {action} --reason \"its data are gone\" --yes`.")
	lossUnbooked = kind(5, "loss", "BreaksOfRelay",
		"The payer's payment was lost after the receiver was paid, and the loss is not booked.",
		byHand+bug+"book it from loss sats to where the price is missing, as a posting of the action (docs/reconcile.md, booking by hand).")
	wrongPreimage = kind(5, "preimage", "BreaksOfRelay",
		"The preimage of a payment that left is not that of its hash: nothing proves that it was made.",
		"`holdfast relay show {action}`; ask the node for the preimage (lncli trackpayment). "+bug+"write the right one into relay_payment and invoice, while the payer's payment is held.")
)

// Invariant 6.
var (
	strangeStep = kind(6, "step", "BreaksOfHistory, with action_step_allowed",
		"The history holds a step that the machine does not have.", byHand+outside+"put the step of before back into action_history, and the state to where its money is (docs/reconcile.md, changing rows by hand).")
	strangeFact = kind(6, "fact", "FactsOfHistory, with paidaction.Machine",
		"A step was taken for a reason that does not lead there.", byHand+bug+"look at the node's view before it moves on.")
	gap        = kind(6, "gap", "BreaksOfHistory", "A step does not begin where the one before it ended.", byHand+outside+"put the missing step back, with the number that it had (OVERRIDING SYSTEM VALUE).")
	endDiffers = kind(6, "end", "BreaksOfHistory", "The last step does not lead to the state that the action has.",
		byHand+outside+"if its postings show that the step was taken put that back into action_history: with the state of before it would be taken, and booked, a second time. If not set the state to that of the last step (docs/reconcile.md, changing rows by hand), unless the node says otherwise.")
	strangeAttempt = kind(6, "attempt", "BreaksOfAttempts", "An action is RETRYING, and its successor is not the next attempt of the same; or it is not RETRYING and has one; or an attempt is no action's successor.",
		byHand+outside+"set successor_id, or the successor's genesis_id, right. An anonymous payer's secret is that of the first attempt.")
	noHistory      = kind(6, "none", "ActionsWithoutHistory", "An action has no history.", byHand+outside+"put it back.")
	stepsUnguarded = kind(6, "guard", "pg_trigger", "What refuses other steps, keeps actions, their history and people from being changed or deleted, or has revoked keys forgotten, is gone or switched off.",
		"Switch the trigger on again: ALTER TABLE … ENABLE TRIGGER; one of api_key ENABLE ALWAYS TRIGGER, and add 1 to key_epoch.epoch, "+
			"or keys that were revoked meanwhile stay good. Then run `holdfast reconcile`.")
)

// Invariant 7.
var (
	noDeadline = kind(7, "no-deadline", "BreaksOfDeadlines", "An open action has no deadline: no sweep will find it.",
		byHand+"The constraint open_has_deadline refuses this, so it was dropped: give the row a deadline, and make the constraint again.")
	idle = kind(7, "no-job", "BreaksOfDeadlines, with river_job", "An open action has no job to come: nothing but the sweep will look at it.",
		"`holdfast actions requeue {action}`. If there are many: was river_job emptied, or restored without the rest?")
	undelivered = kind(7, "undelivered", "LostDeliveries, over all messages to webhooks; only holdfast reconcile",
		"A message to a webhook has not ended, and has no job: nobody delivers it, and its action and all later ones are never archived.",
		"Set queued_at of these rows of webhook_message to NULL: a process with the role worker makes their jobs anew. If there are many: was river_job emptied, or restored without the rest?")
	overdue = kind(7, "overdue", "BreaksOfDeadlines", "An open action is past its deadline, and the sweeps have not moved it.",
		"Does a process with the role worker run? "+byHand+"If its node is away, bring it back; if it is not, the workers' log says why. Then `holdfast actions requeue {action}`.")
	tooHigh = kind(7, "height", "BreaksOfDeadlines, with the height of the node",
		"A held payment is past its safety height: the node will give it back, whatever became of ours.",
		"At once: "+byHand+"If a payment is out, `holdfast relay show {action}` says through which node. Is that node up? The workers do the rest as soon as it answers: `holdfast actions requeue {action}`.")
)

// Invariant 8.
var (
	keyTwice = kind(8, "two-actions", "BreaksOfKeys", "One idempotency key has made two actions.",
		"Show both with `holdfast actions show {action}` and `holdfast actions show {other}`, and give the payer the second one's price, from loss sats to their sats by a posting of no action (docs/reconcile.md, booking by hand). The unique index is gone: give the second one another idempotency_key, and make the index again as its migration does.")
	guessable = kind(8, "guessable", "WeakKeys", "An anonymous payer's key is shorter than 128 random bits: who guesses it sees the action.",
		byHand+bug+"find out how such a key was let in.")
	unhashed = kind(8, "no-hash", "WeakKeys", "A key's arguments are not known: the same key with others would not be refused.",
		byHand+outside+"put args_hash back.")
	keysUnguarded = kind(8, "guard", "pg_index", "A unique index that makes one key one action, or allows one attempt at a time, is gone or not valid.",
		"Mend what the other breaks of this invariant name, and make the index again as its migration does.")
)

// Invariant 9.
var (
	nodeGone = kind(9, "node-missing", "the settings", "The node of an action that is open is not configured: nobody can ask it.",
		"Configure {node} again under that name, in HOLDFAST_NODES, until nothing of it is open.")
	twoNames = kind(9, "two-names", "NamesOfNode, RecordedHashes, KnownInvoices", "A node has another name than before: what is open under that one may be asked of nobody.",
		"Give it the name back under which it was known before, in HOLDFAST_NODES, at least until nothing of that name is open. Nothing is to be booked for it. It is told until `--since` has passed.")
	invoiceLost = kind(9, "invoice-lost", "LookupInvoice", "A node does not know an invoice that it issued: it was wiped, or restored from an old backup.",
		"`holdfast nodes drain {node}`, and bring the node's own data back. What is held there cannot be told without them. If they are gone for good: `holdfast actions give-up {action} --reason \"…\" --yes` once the invoice has expired. If it is HELD, or a forward that has paid its receiver: `holdfast actions write-off {action} --reason \"its data are gone\" --yes`.")
	settledUnpaid = kind(9, "settled", "LookupInvoice", "A node has taken a payment, and its action is not PAID.",
		byHand+"While it is open: `holdfast actions requeue {action}`. If it has ended, or was restored from a backup: book what was received to the payer by hand.")
	onChain = kind(9, "on-chain", "LookupInvoice", "A plain invoice was paid from a channel that was closed by force. Its node counts the payment, and only the chain shows whether it arrives: the action waits for that.",
		"Look at what the node has fetched of that channel (lncli closedchannels, once nothing of it is in limbo). If the payment is among it, the price at least: `holdfast actions on-chain {action} --arrived --yes`; if its payer took it back, or some of it, so that less than the price arrived: `holdfast actions on-chain {action} --lost --reason \"…\" --yes`.")
	canceledUnfailed = kind(9, "canceled", "LookupInvoice", "A node has given a payment back or closed the invoice, and its action has not failed.",
		byHand+"While it is open: `holdfast actions requeue {action}`. If it is PAID without the money: book the price as a loss.")
	stillHeld = kind(9, "held", "LookupInvoice", "An action has ended, and the node still holds its payment.",
		byHand+"Give it back at the node (lncli cancelinvoice); of an action that is PAID, settle it there (lncli settleinvoice).")
	stillOpen = kind(9, "open", "LookupInvoice", "An action has ended, and its invoice can still be paid.",
		"Cancel it at the node {node} (lncli cancelinvoice). "+byHand)
	receivedDiffers = kind(9, "received", "LookupInvoice, BookedForInvoice", "What a node received is not what is booked.",
		byHand+bug+"book the difference by postings of no action: between lightning and backing sats, and between issued credits and the payer's credits (docs/reconcile.md, booking by hand). It is told until `--since` has passed.")
	otherText = kind(9, "bolt11", "LookupInvoice", "An invoice of ours is recorded with another text than its node has: its payer pays something else.",
		byHand+outside+"set bolt11 of its row in invoice to what the node {node} says (payment_request of lncli lookupinvoice). Who paid by the other text has paid for the action whose hash is in it.")
	paymentLost = kind(9, "payment-lost", "TrackPayment", "A node does not know a payment that it made, or has shown to be under way: it was wiped, or restored from an old backup.",
		"`holdfast nodes drain {node}`: it could pay again what it does not know. Bring its own data back; if they are gone, the preimage is known and the fee is not booked yet: `holdfast actions write-off {action} --reason \"its data are gone\" --yes`.")
	paidUnbooked = kind(9, "paid-out", "TrackPayment", "A node has paid, and the payment does not count as made.",
		"`holdfast relay show {action}`. While the action is open: `holdfast actions requeue {action}`. If the payer has the money back: it is a loss, to be booked by hand.")
	notBooked = kind(9, "not-booked", "TrackPayment", "A node has paid, no part of the payment is under way any more, and what it cost is not booked: the rest of what was set aside for it is still in routing sats.",
		"Does a process with the role worker run, and reach the node {node}? Its log says why it cannot book the payment. `holdfast relay show {action}` says when it is.")
	bookedUnpaid = kind(9, "not-paid-out", "TrackPayment", "A payment is booked as made, and its node says that it failed.",
		"`holdfast relay show {action}`. "+bug+"give the payer of a withdrawal the money back by hand; a receiver of a forward was not paid.")
	mayStillPay = kind(9, "may-pay", "TrackPayment", "A payment was given up, or booked to its end, and the node may still pay.",
		"`holdfast nodes drain {node}`. `holdfast relay show {action}` has the hash: ask the node (lncli trackpayment) until it says FAILED or SUCCEEDED; what it pays then is a loss.")
	leftDiffers = kind(9, "fee", "TrackPayment, PaymentsToCompare", "What left with a payment, or its fee, is not what is booked to the millisatoshi.",
		byHand+bug+"book the difference between lightning and loss sats by a posting of no action (docs/reconcile.md, booking by hand). It is told until `--since` has passed.")
	otherTerms = kind(9, "terms", "BreaksOfRelay", "An outgoing payment is recorded with another receiver, invoice, amount or routing budget than was accepted for it, or than its payer set aside.",
		"`holdfast relay show {action}`. "+outside+"set receiver_id, bolt11, amount_msat and budget_msat of relay_payment to those of inner_invoice, or of a withdrawal to what its result says.")
	otherFee = kind(9, "booked-fee", "BreaksOfRelay", "The fee that is recorded with an outgoing payment is not the one by which the rest of its budget went back.",
		"`holdfast relay show {action}`. "+outside+"ask the node (lncli trackpayment). If it says what is booked set fee_msat of relay_payment to the budget less what went back as unused.")
	unclaimed = kind(9, "unclaimed", "BreaksOfRelay", "A payment was made, and no claim says that a node has made it: no node is asked about it.",
		"`holdfast relay show {action}`; ask every node (lncli trackpayment). "+outside+"put the claim on the one that has paid back into relay_attempt, with the outcome PAID.")
	otherClaim = kind(9, "claim", "BreaksOfRelay", "An outgoing payment is in work and has no open claim, so no node is asked about it; or it has one and is not in work; or its claim is another node's.",
		"`holdfast relay show {action}` lists the claims; ask their nodes (lncli trackpayment). "+outside+"if the payment is in work set outcome, reason and ended_at of its last claim in relay_attempt to NULL: the workers go on from what its node says. "+
			"If a claim is open set the stage of relay_payment to in_work, but if the action has failed end the claim as FAILED, once its node says so. The node of relay_payment is that of the claim which is open or PAID.")
	recordLost = kind(9, "record-lost", "LostRecords", "The invoice or the outgoing payment of an action is not recorded, and no node is asked about it; or its receiver's invoice is not.",
		byHand+outside+"put the row back.")
	ownPreimage = kind(9, "own-preimage", "WrongPreimages",
		"An invoice of ours is recorded without its preimage, or with another: its payment cannot be taken.",
		byHand+outside+"put the preimage back into invoice before its payment is given back. Of a forward it is in relay_payment.")
	setAside = kind(9, "set-aside", "BreaksOfRelay", "A payment is booked to its end, and some of what was set aside for it is neither spent nor back.",
		byHand+bug+"move the rest from routing sats to whom it belongs, as a posting of the action with the reason 'unused routing fee' (docs/reconcile.md, booking by hand).")
	unrecorded = kind(9, "not-recorded", "EachPayment, RecordedHashes", "A node has made a payment that is not recorded here.",
		"If the node also serves others it is theirs. If not: was the database restored, or did it fail over to a copy that lagged behind? `holdfast nodes drain {node}`, bring the newer database back. If it was a forward whose payer's payment is still held (lncli lookupinvoice of its hash at every node), settle that at once with the payment's preimage (lncli settleinvoice). If its hash is also told as not-issued, the payer's payment was taken, and nothing is lost. What cannot be found is a loss, to be booked by hand (docs/reconcile.md, booking by hand). It is told until `--since` has passed.")
	unissued = kind(9, "not-issued", "EachSettled, KnownInvoices; only holdfast reconcile", "A node has taken a payment for an invoice that is not recorded here: whoever paid has nothing for it.",
		"If the node also serves others it is theirs. If not: was the database restored, or did it fail over to a copy that lagged behind? `lncli lookupinvoice` says when it was and what for; whoever proves with the preimage that they paid it is to have it, or their money back; but if its hash is also told as not-recorded, it was a forward whose receiver has the money, and none is to be given back. It is told until `--since` has passed.")
)

// Invariant 10.
var deadlocked = kind(10, "deadlocks", "pg_stat_database",
	"PostgreSQL has broken deadlocks since its statistics were last reset: two transactions lock rows in different orders.",
	"No money is lost: the transaction ran again. PostgreSQL's log has both statements. Once the cause is mended, SELECT pg_stat_reset() in this database begins the count anew.")
