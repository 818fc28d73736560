package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// BenchmarkDecide: 50,000 workloads wait in 1,000 queues of 10 organisations on
// 10,000 GPUs, of which all are in use; in each round a hundred end and a hundred
// come.
func BenchmarkDecide(b *testing.B) {
	nodes := []fairshare.Node{{Parent: fairshare.None}}
	for o := range 10 {
		org := len(nodes)
		nodes = append(nodes, fairshare.Node{Parent: 0, Guaranteed: []int64{500}, Weight: 1 + float64(o%3)})
		for range 100 {
			nodes = append(nodes, fairshare.Node{Parent: org, Guaranteed: []int64{5}, Weight: 1})
		}
	}
	tree, err := fairshare.New(nodes, []int64{10_000})
	if err != nil {
		b.Fatal(err)
	}
	classes := make([][]int64, 9)
	for i := range classes {
		classes[i] = []int64{int64(i)}
	}
	q, err := New(tree, NewPool([]int64{10_000}, classes), Policy{Reservations: 8, Aging: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	n, now := 0, time.Duration(0)
	come := func() {
		n++
		class := 1 << (n % 4)
		leaf := 1 + n%1010
		for !tree.Leaf(leaf) {
			leaf++
		}
		if err := q.Add(Workload{ID: fmt.Sprint(n), Queue: leaf, Class: class, Resources: classes[class], Priority: n % 3, QueuedAt: now,
			Expected: time.Duration(1+n%50) * time.Minute, Preemptible: true, MinRuntime: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
	for range 53_000 {
		come()
	}
	var runs []string
	took := func(p Plan) {
		for _, s := range p.Start {
			runs = append(runs, s.ID)
		}
	}
	took(q.Decide(now))
	started := 0
	for b.Loop() {
		now += time.Second
		for _, id := range runs[:100] {
			q.Remove(id, now)
		}
		runs = runs[100:]
		for range 100 {
			come()
		}
		p := q.Decide(now)
		took(p)
		started += len(p.Start)
	}
	b.ReportMetric(float64(started)/b.Elapsed().Seconds(), "starts/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(max(started, 1)), "µs/start")
}
