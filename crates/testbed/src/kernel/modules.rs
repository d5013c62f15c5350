//! Kernel modules and what they depend on, read from the modules themselves: packages carry no
//! `modules.dep`.

use super::image::Image;
use crate::error::{During, Error, Result};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A module ready to load: its name, and its object code without compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// With underscores, as `lsmod` shows it.
    pub name: String,
    /// The object file.
    pub code: Vec<u8>,
}

/// The modules asked for and those they need, each after what it depends on. What is built into the
/// kernel is left out.
pub fn load_order(kernel: &Image, names: &[String]) -> Result<Vec<Module>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let folder = kernel.modules.as_ref().ok_or_else(|| {
        Error::Kernel(format!(
            "no modules of kernel {} are to be had: leave out --module or choose another kernel",
            kernel.version
        ))
    })?;
    let mut tree = Tree::read(folder)?;
    for name in names {
        tree.add(&canonical(name), &mut Vec::new())?;
    }
    Ok(tree.order)
}

/// A folder of modules, and what was chosen from it.
struct Tree {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    order: Vec<Module>,
}

impl Tree {
    fn read(folder: &Path) -> Result<Tree> {
        let mut files = BTreeMap::new();
        find_modules(&folder.join("kernel"), &mut files)?;
        let list = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let built_in = list
            .lines()
            .filter_map(|line| name_of(Path::new(line)))
            .collect();
        Ok(Tree {
            folder: folder.to_path_buf(),
            files,
            built_in,
            order: Vec::new(),
        })
    }

    /// Adds a module after what it depends on; `above` is the chain of those that asked for it.
    fn add(&mut self, name: &str, above: &mut Vec<String>) -> Result<()> {
        let known = self.order.iter().any(|module| module.name == name);
        if known || self.built_in.contains(name) || above.iter().any(|a| a == name) {
            return Ok(());
        }
        let path = self.files.get(name).cloned().ok_or_else(|| {
            let needed = above
                .last()
                .map(|by| format!(", which {by} needs,"))
                .unwrap_or_default();
            Error::BadSpec(format!(
                "no module {name}{needed} in {}",
                self.folder.display()
            ))
        })?;
        let code = read_module(&path)?;
        above.push(name.to_string());
        for dependency in dependencies(&code) {
            self.add(&dependency, above)?;
        }
        above.pop();
        self.order.push(Module {
            name: name.to_string(),
            code,
        });
        Ok(())
    }
}

fn find_modules(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).during(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let path = entry
            .during(|| format!("read {}", folder.display()))?
            .path();
        if path.is_dir() {
            find_modules(&path, files)?;
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// The module's name, from `…/kvm-amd.ko.xz`.
fn name_of(path: &Path) -> Option<String> {
    let (name, rest) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| canonical(name))
}

fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// Reads a module, decompressing it.
fn read_module(path: &Path) -> Result<Vec<u8>> {
    let what = || format!("read {}", path.display());
    let bytes = fs::read(path).during(what)?;
    let mut code = Vec::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => liblzma::read::XzDecoder::new(&bytes[..]).read_to_end(&mut code),
        Some("gz") => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut code),
        Some("zst") => ruzstd::decoding::StreamingDecoder::new(&bytes[..])
            .map_err(std::io::Error::other)
            .and_then(|mut decoder| decoder.read_to_end(&mut code)),
        _ => return Ok(bytes),
    }
    .during(what)?;
    Ok(code)
}

/// What a module says that it depends on: `depends=a,b` in its section `.modinfo`.
fn dependencies(code: &[u8]) -> Vec<String> {
    let section = object::File::parse(code).ok().and_then(|file| {
        let section = file.section_by_name(".modinfo")?;
        section.data().ok().map(<[u8]>::to_vec)
    });
    depends_in(&section.unwrap_or_default())
}

fn depends_in(modinfo: &[u8]) -> Vec<String> {
    let list = modinfo
        .split(|byte| *byte == 0)
        .find_map(|word| word.strip_prefix(b"depends="));
    let list = String::from_utf8_lossy(list.unwrap_or_default()).into_owned();
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(canonical)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::write::Object as Writer;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    /// An object file with a `.modinfo` section.
    fn code(modinfo: &str) -> Vec<u8> {
        let mut object = Writer::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section =
            object.add_section(Vec::new(), b".modinfo".to_vec(), SectionKind::ReadOnlyData);
        object.append_section_data(section, modinfo.as_bytes(), 1);
        object.write().unwrap()
    }

    fn kernel(folder: &Path) -> Image {
        Image {
            version: "7.0".into(),
            path: folder.join("vmlinuz"),
            config: None,
            modules: Some(folder.to_path_buf()),
        }
    }

    fn sample() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let arch = root.path().join("kernel/arch");
        fs::create_dir_all(&arch).unwrap();
        let xz = |bytes: Vec<u8>| {
            let mut out = Vec::new();
            liblzma::read::XzEncoder::new(&bytes[..], 6)
                .read_to_end(&mut out)
                .unwrap();
            out
        };
        let gz = |bytes: Vec<u8>| {
            let mut out = Vec::new();
            let level = flate2::Compression::fast();
            flate2::read::GzEncoder::new(&bytes[..], level)
                .read_to_end(&mut out)
                .unwrap();
            out
        };
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zst = |bytes: Vec<u8>| ruzstd::encoding::compress_to_vec(&bytes[..], level);
        fs::write(
            arch.join("kvm.ko.xz"),
            xz(code("depends=irqbypass\0name=kvm\0")),
        )
        .unwrap();
        fs::write(arch.join("kvm-amd.ko.zst"), zst(code("depends=kvm,ccp\0"))).unwrap();
        fs::write(arch.join("irqbypass.ko.gz"), gz(code("depends=\0"))).unwrap();
        fs::write(arch.join("lonely.ko"), code("depends=missing\0")).unwrap();
        fs::write(
            root.path().join("modules.builtin"),
            "kernel/drivers/ccp.ko\n",
        )
        .unwrap();
        root
    }

    #[test]
    fn dependencies_come_first_whatever_the_compression() {
        let root = sample();
        let modules = load_order(&kernel(root.path()), &["kvm-amd".into(), "kvm".into()]).unwrap();
        let names: Vec<&str> = modules.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["irqbypass", "kvm", "kvm_amd"]);
        assert!(modules.iter().all(|m| m.code.starts_with(b"\x7fELF")));
    }

    #[test]
    fn built_in_modules_need_no_loading_and_missing_ones_are_named() {
        let root = sample();
        let kernel = kernel(root.path());
        assert!(load_order(&kernel, &["ccp".into()]).unwrap().is_empty());
        let text = |name: &str| load_order(&kernel, &[name.into()]).unwrap_err().to_string();
        assert!(text("nothing").contains("no module nothing in"));
        assert!(text("lonely").contains("no module missing, which lonely needs,"));
        let bare = Image {
            modules: None,
            ..kernel.clone()
        };
        assert!(
            load_order(&bare, &["kvm".into()])
                .unwrap_err()
                .to_string()
                .contains("no modules")
        );
    }
}
