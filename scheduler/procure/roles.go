package procure

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// AnyRole is Mesos' role of everybody.
const AnyRole = "*"

// RolePolicy says which of the framework's roles pods may use. The zero value is the role * for all.
type RolePolicy struct {
	// Framework are the roles that the framework is subscribed with.
	Framework []string
	// Default are the roles of namespaces that name none, the best first; empty is the first of Framework.
	Default []string
}

// All are the framework's roles.
func (p RolePolicy) All() []string {
	if len(p.Framework) == 0 {
		return []string{AnyRole}
	}
	return p.Framework
}

func (p RolePolicy) defaults() []string {
	if len(p.Default) == 0 {
		return p.All()[:1]
	}
	return p.Default
}

// Of are the roles that a pod may use, the best first: those of its annotation messages.AnnotationRoles, which have to be
// among those of its namespace, or else those of the namespace. The error is errdefs.ErrInvalid and names the roles.
func (p RolePolicy) Of(pod *corev1.Pod, namespaceRoles string) (offers.Roles, error) {
	allowed := p.defaults()
	if listed := SplitRoles(namespaceRoles); len(listed) > 0 {
		allowed = listed
	}
	for _, role := range allowed {
		if !slices.Contains(p.All(), role) {
			return "", fmt.Errorf("namespace %s names role %s, which the scheduler does not have; it has %s (its setting roles): %w",
				pod.Namespace, role, strings.Join(p.All(), ", "), errdefs.ErrInvalid)
		}
	}
	preferred, stated := pod.Annotations[messages.AnnotationRoles]
	if !stated {
		return offers.NewRoles(allowed...), nil
	}
	wanted := SplitRoles(preferred)
	if len(wanted) == 0 {
		return "", fmt.Errorf("annotation %s is empty; name one of %s, or leave it out: %w", messages.AnnotationRoles, strings.Join(allowed, ", "), errdefs.ErrInvalid)
	}
	for _, role := range wanted {
		if !slices.Contains(allowed, role) {
			return "", fmt.Errorf("role %s is not allowed in namespace %s, which may use %s (annotation %s of the namespace): %w",
				role, pod.Namespace, strings.Join(allowed, ", "), messages.AnnotationRoles, errdefs.ErrInvalid)
		}
	}
	return offers.NewRoles(wanted...), nil
}

// SplitRoles reads a list of roles, separated by commas; spaces and repetitions do not matter.
func SplitRoles(list string) (roles []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(roles, name) {
			roles = append(roles, name)
		}
	}
	return roles
}

// RoleFault says what is wrong with a role's name, or "": the rules of Mesos.
func RoleFault(role string) string {
	if role == AnyRole {
		return ""
	}
	for _, part := range strings.Split(role, "/") {
		switch {
		case part == "":
			return "it is empty, or has a / too many"
		case part == "." || part == "..":
			return "a part of it is " + part
		case strings.HasPrefix(part, "-"):
			return "a part of it begins with -"
		case part == AnyRole:
			return "a part of it is *"
		case strings.ContainsAny(part, " \t\n\v\f\r\b\\,"):
			return "it has white space, a backslash or a comma in it"
		}
	}
	return ""
}
