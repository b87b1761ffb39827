package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// etcd writes objects into etcd as the API server stores them. What is measured afterwards is the scheduler, which reads them from
// the API server: a hundred thousand pods would take that one minutes to create.
type etcd struct {
	client *clientv3.Client
	codec  *protobuf.Serializer
}

func (c *cluster) etcd() (*etcd, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(c.dir, "plane", "run", "etcd.sock")}, DialTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	return &etcd{client: client, codec: protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)}, nil
}

// put stores n objects, whose keys below /registry and values make gives.
func (e *etcd) put(ctx context.Context, n int, make func(i int) (key string, object runtime.Object)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range n {
		group.Go(func() error {
			key, object := make(i)
			var data bytes.Buffer
			if err := e.codec.Encode(object, &data); err != nil {
				return fmt.Errorf("encode %s: %w", key, err)
			}
			_, err := e.client.Put(ctx, "/registry/"+key, data.String())
			return err
		})
	}
	return group.Wait()
}

// typed gives an object the version and kind that it is stored with.
func typed(object runtime.Object, kind string) runtime.Object {
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}
