// peer NAME: what a Go program pays for a limiter per key, with one line of figures per case.
//
// Each name is a recipe in recipes.go. The keys are ready-made and visited in an order that was
// shuffled before any clock ran; those in the map are other strings of the same bytes, as those
// of a new request would be.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"
)

const (
	keyCount   = 1000000
	sliceCount = 100000                  // calls in a slice
	caseTime   = 1000 * time.Millisecond // as many slices as fit, after a lap to warm up
)

// splitMix64 is the same in every peer, and so are the keys.
func splitMix64(state *uint64) uint64 {
	*state += 0x9E3779B97F4A7C15
	mixed := *state
	mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9
	mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB
	return mixed ^ (mixed >> 31)
}

// newKey returns the index-th key, 16 bytes of its own.
func newKey(index uint64) string {
	return fmt.Sprintf("%016x", splitMix64(&index))
}

// shuffledKeys returns all keys in the order of the visits, and so side by side in memory.
func shuffledKeys() []string {
	order := make([]uint64, keyCount)
	random := uint64(1)
	for i := range order {
		order[i] = uint64(i)
	}
	for i := uint64(keyCount - 1); i > 0; i-- {
		other := splitMix64(&random) % (i + 1)
		order[i], order[other] = order[other], order[i]
	}
	keys := make([]string, keyCount)
	for i, index := range order {
		keys[i] = newKey(index)
	}
	return keys
}

type figures struct {
	nsPerOp  float64
	ops      int
	admitted float64
}

// measure takes the median of slices, each of which continues where the last one stopped: slice(at)
// makes sliceCount calls from the at-th key on, and returns how many were admitted.
func measure(slice func(at int) int) figures {
	var times []float64
	admitted, at := 0, 0
	step := func() int {
		got := slice(at)
		at = (at + sliceCount) % keyCount
		return got
	}
	for lap := 0; lap < keyCount; lap += sliceCount {
		step()
	}
	for end := time.Now().Add(caseTime); len(times) == 0 || time.Now().Before(end); {
		start := time.Now()
		admitted += step()
		times = append(times, float64(time.Since(start).Nanoseconds())/sliceCount)
	}
	sort.Float64s(times)
	ops := len(times) * sliceCount
	return figures{times[len(times)/2], ops, float64(admitted) / float64(ops)}
}

func visitOne(limiters keyed, key string) int {
	admitted := 0
	for i := 0; i < sliceCount; i++ {
		if limiters.allow(key) {
			admitted++
		}
	}
	return admitted
}

func visit(limiters keyed, keys []string) int {
	admitted := 0
	for _, key := range keys {
		if limiters.allow(key) {
			admitted++
		}
	}
	return admitted
}

// visitInTwo shares the keys between two threads. The reported time is that per call of either.
func visitInTwo(limiters keyed, keys []string) int {
	half := len(keys) / 2
	other := make(chan int)
	go func() { other <- visit(limiters, keys[half:]) }()
	admitted := visit(limiters, keys[:half])
	return admitted + <-other
}

func heapBytes() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// fill meets every key once, and returns the bytes that each takes, its own included.
func fill(limiters keyed) float64 {
	before := heapBytes()
	for i := uint64(0); i < keyCount; i++ {
		limiters.allow(newKey(i))
	}
	return float64(heapBytes()-before) / keyCount
}

func show(peer, name string, keys int, got figures, more string) {
	fmt.Printf("peer=%s case=%s ns_per_op=%.1f ops=%d admitted=%.6f keys=%d%s runtime=%s\n",
		peer, name, got.nsPerOp, got.ops, got.admitted, keys, more, runtime.Version())
}

func main() {
	name := ""
	if len(os.Args) == 2 {
		name = os.Args[1]
	}
	create, known := recipes[name]
	if !known {
		fmt.Fprintln(os.Stderr, "usage: peer NAME, one of")
		for name := range recipes {
			fmt.Fprintln(os.Stderr, "   ", name)
		}
		os.Exit(2)
	}

	one := create()
	hotKey := newKey(0)
	show(name, "hot", 1, measure(func(int) int { return visitOne(one, hotKey) }), "")

	keys := shuffledKeys()
	limiters := create()
	memory := fmt.Sprintf(" mem_bytes_per_key=%.0f", fill(limiters))
	show(name, "million", keyCount, measure(func(at int) int {
		return visit(limiters, keys[at:at+sliceCount])
	}), memory)
	if runtime.GOMAXPROCS(0) >= 2 {
		show(name, "million_two_threads", keyCount, measure(func(at int) int {
			return visitInTwo(limiters, keys[at:at+sliceCount])
		}), "")
	}
}
