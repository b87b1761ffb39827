//go:build !agent

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// strict decodes objects and refuses unknown and repeated fields.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// readPods reads the pods of a file, - for in. All faults of the file are told together, each with its document.
func readPods(name string, in io.Reader, namespace string) ([]*corev1.Pod, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(in)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var pods []*corev1.Pod
	var faults []error
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return pods, errors.Join(faults...)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		if empty(document) {
			continue
		}
		found, err := podsOf(document, namespace)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: document %d: %w", name, n, err))
		}
		pods = append(pods, found...)
	}
}

// empty tells of a document that is nothing but comments.
func empty(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// podsOf are the pods of a document: itself, one of its template, or those of the objects in a list.
func podsOf(document []byte, namespace string) ([]*corev1.Pod, error) {
	object, _, err := strict.Decode(document, nil, nil)
	if err != nil {
		return nil, err
	}
	list, is := object.(*corev1.List)
	if !is {
		pod, err := podOf(object, namespace)
		if err != nil {
			return nil, err
		}
		return []*corev1.Pod{pod}, nil
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		found, err := podsOf(list.Items[i].Raw, namespace)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		pods = append(pods, found...)
	}
	return pods, nil
}

func podOf(object runtime.Object, namespace string) (*corev1.Pod, error) {
	var template *corev1.PodTemplateSpec
	switch o := object.(type) {
	case *corev1.Pod:
		template = &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	case *corev1.ReplicationController:
		template = o.Spec.Template
	case *appsv1.Deployment:
		template = &o.Spec.Template
	case *appsv1.ReplicaSet:
		template = &o.Spec.Template
	case *appsv1.StatefulSet:
		template = &o.Spec.Template
	case *appsv1.DaemonSet:
		template = &o.Spec.Template
	case *batchv1.Job:
		template = &o.Spec.Template
	case *batchv1.CronJob:
		template = &o.Spec.JobTemplate.Spec.Template
	}
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if template == nil {
		return nil, fmt.Errorf("a %s has no pods; want a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController", kind)
	}
	meta := object.(metav1.Object)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: meta.GetName(), Namespace: meta.GetNamespace(), Labels: template.Labels, Annotations: template.Annotations,
	}, Spec: template.Spec}
	if pod.Name == "" {
		pod.Name = meta.GetGenerateName()
	}
	if pod.Name == "" {
		return nil, fmt.Errorf("the %s has no name", kind)
	}
	if pod.Namespace == "" {
		pod.Namespace = namespace
	}
	return pod, nil
}
