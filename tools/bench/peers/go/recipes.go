package main

import (
	"sync"

	"github.com/juju/ratelimit"
	"golang.org/x/time/rate"
)

// The limit of every peer: 10 per second, burst 10.
const (
	perSecond = 10
	burst     = 10
)

// keyed is a limiter per key, made when the key is first seen, as in the usual recipes.
type keyed interface {
	allow(key string) bool
}

var recipes = map[string]func() keyed{
	"go-xtime-mutex":   func() keyed { return &mutexMap{limiters: make(map[string]*rate.Limiter)} },
	"go-xtime-rwmutex": func() keyed { return &rwMutexMap{limiters: make(map[string]*rate.Limiter)} },
	"go-xtime-syncmap": func() keyed { return &syncMap{} },
	"go-juju-mutex":    func() keyed { return &jujuMap{buckets: make(map[string]*ratelimit.Bucket)} },
}

// mutexMap: x/time/rate in a map behind a mutex, which is held to find the limiter and not to
// ask it: a limiter has a mutex of its own.
type mutexMap struct {
	mutex    sync.Mutex
	limiters map[string]*rate.Limiter
}

func (m *mutexMap) allow(key string) bool {
	m.mutex.Lock()
	limiter, found := m.limiters[key]
	if !found {
		limiter = rate.NewLimiter(perSecond, burst)
		m.limiters[key] = limiter
	}
	m.mutex.Unlock()
	return limiter.Allow()
}

// rwMutexMap: the same, with a lock that readers share.
type rwMutexMap struct {
	mutex    sync.RWMutex
	limiters map[string]*rate.Limiter
}

func (m *rwMutexMap) allow(key string) bool {
	m.mutex.RLock()
	limiter, found := m.limiters[key]
	m.mutex.RUnlock()
	if !found {
		limiter = m.create(key)
	}
	return limiter.Allow()
}

func (m *rwMutexMap) create(key string) *rate.Limiter {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	limiter, found := m.limiters[key] // another may have been faster
	if !found {
		limiter = rate.NewLimiter(perSecond, burst)
		m.limiters[key] = limiter
	}
	return limiter
}

// syncMap: x/time/rate in the standard library's concurrent map.
type syncMap struct {
	limiters sync.Map
}

func (m *syncMap) allow(key string) bool {
	limiter, found := m.limiters.Load(key)
	if !found {
		limiter, _ = m.limiters.LoadOrStore(key, rate.NewLimiter(perSecond, burst))
	}
	return limiter.(*rate.Limiter).Allow()
}

// jujuMap: juju/ratelimit in a map behind a mutex.
type jujuMap struct {
	mutex   sync.Mutex
	buckets map[string]*ratelimit.Bucket
}

func (m *jujuMap) allow(key string) bool {
	m.mutex.Lock()
	bucket, found := m.buckets[key]
	if !found {
		bucket = ratelimit.NewBucketWithRate(perSecond, burst)
		m.buckets[key] = bucket
	}
	m.mutex.Unlock()
	return bucket.TakeAvailable(1) == 1
}
