package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName names cluster, user and context in the kubeconfigs written here.
const contextName = "mesopod"

// WriteKubeconfig writes a kubeconfig of mode 0600 to path for the API server
// at server (an https URL). The certificates and the key are copied into it,
// so it can be moved without them. Its current context is "mesopod".
func WriteKubeconfig(path, server, caFile, certFile, keyFile string) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: read authority: %w", path, err)
	}
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: read certificate: %w", path, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: read key: %w", path, err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos[contextName] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	c.CurrentContext = contextName
	data, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	if err := storeFile(path, data); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
