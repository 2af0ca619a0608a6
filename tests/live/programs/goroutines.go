// SPDX-License-Identifier: BSD-2-Clause

// Goroutines that call functions and count the calls: with parking, stacks that grow and shrink, panics, Goexit,
// preemption, and functions of all forms. Prints "calls NAME COUNT". Argument: rounds; 0: until standard input ends.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const goroutines = 20

var counts sync.Map

func here(name string) {
	count, _ := counts.LoadOrStore(name, new(int64))
	atomic.AddInt64(count.(*int64), 1)
}

//go:noinline
func empty() {}

// No frame, and no check of the stack.
//
//go:noinline
func leaf(a int) int { return a*a + 1 }

//go:noinline
func deep(n int) int {
	here("main.deep")
	var room [32]int
	room[n%32] = n
	if n == 0 {
		return leaf(n)
	}
	return deep(n-1) + room[n%32]
}

// A frame that is larger than the reserve below the limit: another check of the stack.
//
//go:noinline
func large(n int) (sum byte) {
	here("main.large")
	var room [20000]byte
	room[n] = 1
	for _, b := range room {
		sum += b
	}
	return sum
}

//go:noinline
func park(c chan int) int {
	here("main.park")
	return <-c
}

//go:noinline
func thrower(n int) int {
	here("main.thrower")
	if n%2 == 0 {
		panic("thrown")
	}
	return n
}

//go:noinline
func between(n int) int {
	here("main.between")
	return thrower(n) + 1
}

//go:noinline
func catcher(n int) (result int) {
	here("main.catcher")
	defer func() {
		if recover() != nil {
			result = -1
		}
	}()
	return between(n)
}

//go:noinline
func quits() {
	here("main.quits")
	runtime.Goexit()
}

//go:noinline
func spin(until time.Time) (n int) {
	here("main.spin")
	for time.Now().Before(until) {
		for i := 0; i < 100000; i++ {
			n += i
		}
	}
	return n
}

type shape interface{ area(int) int }
type square struct{ side int }
type frame struct{ *square }

//go:noinline
func (s *square) area(n int) int {
	here("main.(*square).area")
	return s.side * n
}

func times(name string, n int, call func(int)) {
	for i := 0; i < n; i++ {
		call(i)
	}
	count, _ := counts.LoadOrStore(name, new(int64))
	atomic.AddInt64(count.(*int64), int64(n))
}

func work(id int, done *sync.WaitGroup) {
	defer done.Done()
	c := make(chan int)
	go func() {
		for i := 0; i < 30; i++ {
			c <- i
		}
	}()
	var s shape = frame{&square{id}}
	for i := 0; i < 30; i++ {
		park(c)
		catcher(i)
		s.area(i)
	}
	deep(10 * id)
	large(id)
	times("main.empty", 10, func(int) { empty() })
	times("main.leaf", 10, func(i int) { leaf(i) })
	atomic.AddInt64(leaves, 1) // of deep()
	runtime.GC()               // shrinks stacks
	deep(5)
	atomic.AddInt64(leaves, 1)
	if id%5 == 0 {
		spin(time.Now().Add(20 * time.Millisecond))
	}
	if id%2 == 0 {
		quits()
	}
}

var leaves *int64

func round() {
	var done sync.WaitGroup
	done.Add(goroutines)
	for id := 0; id < goroutines; id++ {
		go work(id, &done)
	}
	done.Wait()
}

func main() {
	count, _ := counts.LoadOrStore("main.leaf", new(int64))
	leaves = count.(*int64)
	rounds, _ := strconv.Atoi(os.Args[1])
	var ended int32
	if rounds == 0 {
		go func() {
			os.Stdin.Read(make([]byte, 1))
			atomic.StoreInt32(&ended, 1)
		}()
	}
	for i := 0; rounds == 0 && atomic.LoadInt32(&ended) == 0 || i < rounds; i++ {
		round()
	}
	counts.Range(func(name, count any) bool {
		fmt.Println("calls", name, *count.(*int64))
		return true
	})
}
