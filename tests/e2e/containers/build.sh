#!/bin/sh
# Builds a Kubernetes from Debian's source package, some minutes the first time: build.sh DIRECTORY MIRROR
# The binaries are then in DIRECTORY/bin, kubectl alone in DIRECTORY/client; the gigabytes that it took are gone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
directory=$1 mirror=$2
recipe=$(cat "$here/build.sh" "$here/crictl.go" | sha256sum)
[ "$(cat "$directory/bin/recipe" 2>/dev/null)" = "$recipe" ] && exit 0
rm -rf "$directory"
mkdir -p "$directory/lists/partial" "$directory/archives/partial" "$directory/bin" "$directory/client"
cd "$directory"
command -v dpkg-source >/dev/null || apt-get install -y -qq dpkg-dev >/dev/null
key=/usr/share/keyrings/debian-archive-keyring.gpg
for kind in deb deb-src; do echo "$kind [signed-by=$key] $mirror bookworm main"; done >sources.list
apt() {
    apt-get -qq -o Dir::State::lists="$directory/lists" -o Dir::Cache::archives="$directory/archives" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root \
        -o Dir::Etc::sourcelist="$directory/sources.list" -o Dir::Etc::sourceparts=- "$@"
}
apt update
apt source --download-only kubernetes
apt download golang-1.19-go golang-1.19-src kubernetes-client
for package in golang-1.19-*.deb; do dpkg -x "$package" go; done
dpkg -x kubernetes-client_*.deb kubectl
cp kubectl/usr/bin/kubectl client/
source="$directory/path/src/k8s.io/kubernetes"
rm -rf "$source"
mkdir -p "$(dirname "$source")"
dpkg-source -x kubernetes_*.dsc "$source" >/dev/null

export GOROOT="$directory/go/usr/lib/go-1.19" GOPATH="$directory/path" GOCACHE="$directory/compiled"
export GO111MODULE=off GOPROXY=off CGO_ENABLED=0 PATH="$directory/go/usr/lib/go-1.19/bin:$PATH"
cd "$source"
mkdir -p cmd/crictl
cp "$here/crictl.go" cmd/crictl/main.go
go build -o "$directory/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
packages=$(grep -rl --include='*.go' '+k8s:openapi-gen=' cmd pkg plugin staging/src |
    grep -v '_test.go\|/testdata/\|_examples\|/code-generator/\|sample-' | xargs -n1 dirname | sort -u |
    sed 's,^staging/src/,vendor/,; s,^,k8s.io/kubernetes/,' | paste -sd,)
"$directory/openapi-gen" --go-header-file hack/boilerplate/boilerplate.generatego.txt -i "$packages" \
    -p k8s.io/kubernetes/pkg/generated/openapi --output-file-base zz_generated.openapi \
    -r "$directory/violations" --output-base "$directory/path/src"
version='-X k8s.io/component-base/version.gitVersion=v1.20.2'
version="$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=20"
for program in kubelet kube-apiserver kube-controller-manager crictl; do
    go build -ldflags "-s -w $version" -o "$directory/bin/" "./cmd/$program"
done
cd "$directory"
for each in *; do
    case $each in bin | client) ;; *) rm -rf "$each" ;; esac
done
echo "$recipe" >bin/recipe
