package queue_test

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
	"github.com/tenon-cloud/tenon/internal/queue"
)

// Beta trains on all of a cloud's eight GPUs. Acme, which is guaranteed four of
// them, gets them once beta has had its grace period.
func Example() {
	tree, _ := fairshare.New([]fairshare.Node{
		{Name: "cloud", Parent: fairshare.None},
		{Name: "acme", Guaranteed: []int64{4}, Weight: 1},
		{Name: "beta", Guaranteed: []int64{4}, Weight: 1},
	}, []int64{8})
	fleet := queue.NewPool([]int64{8}, [][]int64{{4}}) // class 0 takes four
	q, _ := queue.New(tree, fleet, queue.Policy{})

	work := queue.Workload{Class: 0, Resources: []int64{4}, Preemptible: true, Grace: time.Minute}
	for i, id := range []string{"beta-1", "beta-2"} {
		work.ID, work.Queue, work.QueuedAt = id, 2, time.Duration(i)
		_ = q.Add(work)
	}
	for _, s := range q.Decide(time.Second).Start {
		fmt.Println("start", s.ID)
	}

	work.ID, work.Queue, work.QueuedAt = "acme-1", 1, time.Hour
	_ = q.Add(work)
	p := q.Decide(time.Hour)
	fmt.Println("end", p.Preempt[0].ID, "by", p.Preempt[0].Until, "for", p.Preempt[0].For, "because of", p.Preempt[0].Why)

	q.Requeue("beta-2", time.Hour+30*time.Second) // it was quick
	for _, s := range q.Decide(time.Hour + 30*time.Second).Start {
		fmt.Println("start", s.ID)
	}
	words := queue.Words{
		Resource: func(int) string { return "GPUs" },
		Amount:   func(_ int, amount int64) string { return fmt.Sprint(amount) },
		At:       time.Duration.String,
	}
	for _, w := range q.Waiting(time.Hour + 30*time.Second) {
		fmt.Printf("%s is number %d: %s\n", w.ID, w.Position, w.Reason.Say(tree, words))
	}
	// Output:
	// start beta-1
	// start beta-2
	// end beta-2 by 1h1m0s for acme-1 because of reclaim
	// start acme-1
	// beta-2 is number 1: 4 of GPUs short: what else there is is in use
}
