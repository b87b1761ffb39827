// Package zookeeper runs Debian's ZooKeeper for tests, and plays the masters that contend in it: those of the test builds
// of Mesos do not.
package zookeeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

// jar is where the Debian package zookeeper has the server.
const jar = "/usr/share/java/zookeeper.jar"

// startLimit bounds the start of the server: a Java machine on a busy computer.
const startLimit = time.Minute

// Server is one ZooKeeper server.
type Server struct {
	// Address is host:port of it.
	Address string
	dir     string
	process *exec.Cmd
	client  *zk.Conn
}

// Start runs a server that listens at this address, host:port. It keeps its data in dir.
func Start(dir, address string) (*Server, error) {
	if _, err := os.Stat(jar); err != nil {
		return nil, fmt.Errorf("%w: first: make deps", err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	s := &Server{Address: address, dir: dir}
	text := fmt.Sprintf("tickTime=200\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\nmaxClientCnxns=0\nadmin.enableServer=false\n", dir, host, port)
	if err := os.WriteFile(s.file("zoo.cfg"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := s.Run(); err != nil {
		return nil, err
	}
	if s.client, _, err = zk.Connect([]string{address}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{})); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// Run starts the server's process, at first and after Kill, and waits until it answers.
func (s *Server) Run() error {
	log, err := os.OpenFile(s.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has it too
	s.process = exec.Command("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-cp", "/etc/zookeeper/conf:"+jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.file("zoo.cfg"))
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(startLimit)
	for !s.answers() {
		select {
		case <-tick.C:
		case <-late:
			text, _ := os.ReadFile(s.file("log")) // for the person who reads the error
			return errors.Join(fmt.Errorf("ZooKeeper does not answer at %s within %s:\n%s", s.Address, startLimit, text), s.Kill())
		}
	}
	return nil
}

// answers tells whether the server serves: it listens before. Asked as ZooKeeper's own tools do.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // a connection that is up takes one
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return false
	}
	answer, err := io.ReadAll(conn)
	return err == nil && strings.Contains(string(answer), "Mode: standalone")
}

// Kill ends the server at once; what it knows stays on the disk.
func (s *Server) Kill() error {
	if err := s.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = s.process.Wait() // it says that it was killed
	return nil
}

// Stop ends server and client.
func (s *Server) Stop() error {
	if s.client != nil {
		s.client.Close()
	}
	return s.Kill()
}

// Make makes a node with all above it. A user:password guards what is in it against everybody else.
func (s *Server) Make(path, user string) error {
	rules := zk.WorldACL(zk.PermAll)
	if user != "" {
		name, password, _ := strings.Cut(user, ":")
		rules = zk.DigestACL(zk.PermAll, name, password)
		if err := s.client.AddAuth("digest", []byte(user)); err != nil {
			return err
		}
	}
	for at := range strings.SplitSeq(path[1:], "/") {
		end := strings.Index(path, "/"+at) + 1 + len(at)
		acl := zk.WorldACL(zk.PermAll)
		if end == len(path) {
			acl = rules
		}
		if _, err := s.client.Create(path[:end], nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("make node %s: %w", path[:end], err)
		}
	}
	return nil
}

// Contend makes the node of a master at host:port below a path, as a master does that wants to lead; the first one does. It
// returns the node. The master's name is what a certificate would have; empty: as the host.
func (s *Server) Contend(path, hostPort, name string) (node string, err error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return "", err
	}
	if name == "" {
		name = host
	}
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return "", fmt.Errorf("master %s has no IPv4 address", hostPort)
	}
	info, err := json.Marshal(map[string]any{
		"id": "master-" + hostPort, "hostname": name, "port": number, "pid": "master@" + hostPort, "version": "1.11.0", "capabilities": []any{},
		"ip":      uint32(ip[0]) | uint32(ip[1])<<8 | uint32(ip[2])<<16 | uint32(ip[3])<<24, // in network order
		"address": map[string]any{"hostname": name, "ip": host, "port": number},
	})
	if err != nil {
		return "", err
	}
	return s.client.Create(path+"/json.info_", info, zk.FlagSequence, zk.WorldACL(zk.PermAll))
}

// Put makes a node as it is told.
func (s *Server) Put(path, content string) error {
	_, err := s.client.Create(path, []byte(content), 0, zk.WorldACL(zk.PermAll))
	return err
}

// Withdraw removes a node, as ZooKeeper does when its master dies.
func (s *Server) Withdraw(node string) error { return s.client.Delete(node, -1) }

type silent struct{}

// Printf drops what the client says: it says it while a test has the server down.
func (silent) Printf(string, ...any) {}
