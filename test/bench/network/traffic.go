package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mesopod/mesopod/test/bench/figure"
)

// The first byte of a connection says what the server is to do with it.
const (
	drainAll = 'd' // read to the end, then answer with how many bytes came, 8 bytes big endian
	echoEach = 'e' // send each byte back
)

const (
	bufferSize   = 128 << 10
	connectLimit = 5 * time.Second
)

// serve answers until the process is killed.
func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("serving")
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			_ = answer(connection) // who asked sees that it failed
		}()
	}
}

func answer(c net.Conn) error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		return err
	}
	if first[0] == echoEach {
		for {
			if _, err := c.Read(first); err != nil {
				return err
			}
			if _, err := c.Write(first); err != nil {
				return err
			}
		}
	}
	buffer := make([]byte, bufferSize)
	var count uint64
	for {
		n, err := c.Read(buffer)
		count += uint64(n)
		if errors.Is(err, io.EOF) {
			return binary.Write(c, binary.BigEndian, count)
		}
		if err != nil {
			return err
		}
	}
}

// throughput is how many MB/s (10^6 bytes) one connection carries, counted at the far end.
func throughput(address string, length time.Duration) (float64, error) {
	c, err := dial(address, drainAll)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(length + 10*time.Second)); err != nil {
		return 0, err
	}
	buffer := make([]byte, bufferSize)
	began := time.Now()
	for time.Since(began) < length {
		if _, err := c.Write(buffer); err != nil {
			return 0, err
		}
	}
	if err := c.CloseWrite(); err != nil {
		return 0, err
	}
	var count uint64
	if err := binary.Read(c, binary.BigEndian, &count); err != nil {
		return 0, err
	}
	return float64(count) / 1e6 / time.Since(began).Seconds(), nil
}

// latency is the median of so many round trips of one byte over one connection, in µs.
func latency(address string, rounds int) (float64, error) {
	c, err := dial(address, echoEach)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	one := make([]byte, 1)
	return median(rounds, func() error {
		if _, err := c.Write(one); err != nil {
			return err
		}
		_, err := io.ReadFull(c, one)
		return err
	})
}

// connecting is the median of so many connections with one round trip each, in µs.
func connecting(address string, rounds int) (float64, error) {
	return median(rounds, func() error {
		c, err := dial(address, echoEach)
		if err != nil {
			return err
		}
		defer c.Close()
		one := []byte{1}
		if _, err := c.Write(one); err != nil {
			return err
		}
		_, err = io.ReadFull(c, one)
		return err
	})
}

func median(rounds int, do func() error) (float64, error) {
	var took []float64
	for range rounds {
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return figure.Quantile(took, 0.5), nil
}

func dial(address string, kind byte) (*net.TCPConn, error) {
	c, err := net.DialTimeout("tcp", address, connectLimit)
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("connection to %s is no TCP", address)
	}
	if _, err := tcp.Write([]byte{kind}); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	return tcp, nil
}
