package simulate

import (
	"math/rand"

	"github.com/tenon-cloud/tenon/internal/packing"
)

// arrivals is the workload of one seed: the pods shuffled, then more of them drawn
// at random, until the next would take the demand above so many times the
// cluster's GPUs.
func arrivals(pods []packing.Request, capacity int64, arrived float64, rng *rand.Rand) []packing.Request {
	out := append([]packing.Request(nil), pods...)
	_ = rng.Int() // as the published experiment does
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	limit := int64(arrived * float64(capacity))
	var sum int64
	for i := range out {
		sum += out[i].Demand()
	}
	if sum > limit {
		sum = 0
		for i := range out {
			if sum+out[i].Demand() > limit {
				return out[:i]
			}
			sum += out[i].Demand()
		}
	}
	for len(pods) > 0 {
		p := pods[rng.Intn(len(pods))]
		if sum+p.Demand() > limit {
			break
		}
		sum += p.Demand()
		out = append(out, p)
	}
	return out
}
