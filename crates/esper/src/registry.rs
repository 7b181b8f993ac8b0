//! What there is to learn with: methods, and policies that are trained on labels. Each registers once, here or outside.

use std::sync::Arc;

use esper_data::check_name;

use crate::error::Error;
use crate::methods::Method;
use crate::methods::bc::Bc;
use crate::methods::cql::Cql;
use crate::methods::esper::Esper;
use crate::methods::labels;
use crate::methods::rvs::Rvs;
use crate::policy::mlp::MlpKind;
use crate::policy::transformer::TransformerKind;
use crate::policy::{Loader, PolicyKind};
use crate::settings::{Config, Preset, Section};

/// Methods and kinds of policies by name. Cheap to clone.
///
/// ```
/// use esper::methods::{About, Context, Labels, Relabel};
/// use esper::{Error, Registry};
///
/// /// Everybody is worth nothing.
/// struct Zero;
///
/// impl Relabel for Zero {
///     fn about(&self) -> About {
///         About::new("zero")
///     }
///     fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
///         Ok(Labels::new(vec![0.0; context.data.rows()]))
///     }
/// }
///
/// let registry = Registry::default().with(Zero);
/// assert!(registry.method("zero").is_ok() && registry.method("esper").is_ok());
/// let problem = registry.method("nothing").err().expect("nobody registered it").to_string();
/// assert_eq!(problem, "there is no method `nothing`; there are esper, rvs, cql, bc, zero");
/// ```
#[derive(Clone)]
pub struct Registry {
    methods: Vec<Arc<dyn Method>>,
    policies: Vec<Arc<dyn PolicyKind>>,
}

impl Default for Registry {
    /// What is built in.
    fn default() -> Self {
        Registry {
            methods: vec![Arc::new(Esper), Arc::new(Rvs), Arc::new(Cql), Arc::new(Bc)],
            policies: vec![Arc::new(MlpKind), Arc::new(TransformerKind)],
        }
    }
}

impl Registry {
    /// Adds a method; one of the same name is replaced.
    ///
    /// # Panics
    ///
    /// When it is called `labels`, which labels from a file are, or something that cannot be a folder's name
    /// ([`check_name`]).
    pub fn with(mut self, method: impl Method + 'static) -> Self {
        let name = method.about().name;
        check_name(&name).unwrap_or_else(|problem| panic!("{problem}"));
        assert_ne!(name, labels::NAME, "labels from a file have that name");
        self.methods.retain(|other| other.about().name != name);
        self.methods.push(Arc::new(method));
        self
    }

    /// Adds a kind of policy; one of the same name is replaced.
    ///
    /// # Panics
    ///
    /// When it is called something that cannot be a part of a folder's name ([`check_name`]).
    pub fn with_policy(mut self, policy: impl PolicyKind + 'static) -> Self {
        check_name(policy.name()).unwrap_or_else(|problem| panic!("{problem}"));
        self.policies.retain(|other| other.name() != policy.name());
        self.policies.push(Arc::new(policy));
        self
    }

    /// All methods.
    pub fn methods(&self) -> &[Arc<dyn Method>] {
        &self.methods
    }

    /// All kinds of policies that are trained on labels.
    pub fn policies(&self) -> &[Arc<dyn PolicyKind>] {
        &self.policies
    }

    /// The names of all methods.
    pub fn method_names(&self) -> Vec<String> {
        self.methods.iter().map(|method| method.about().name).collect()
    }

    /// The method of a name.
    pub fn method(&self, name: &str) -> Result<Arc<dyn Method>, Error> {
        let found = self.methods.iter().find(|method| method.about().name == name);
        found.cloned().ok_or_else(|| Error::Unknown {
            what: "method",
            name: name.to_owned(),
            known: self.method_names().join(", "),
        })
    }

    /// The kind of policy of a name.
    pub fn policy(&self, name: &str) -> Result<Arc<dyn PolicyKind>, Error> {
        let found = self.policies.iter().find(|policy| policy.name() == name);
        found.cloned().ok_or_else(|| Error::Unknown {
            what: "policy",
            name: name.to_owned(),
            known: self.policies.iter().map(|p| p.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// How a kind of policy is loaded.
    pub fn loader(&self, kind: &str) -> Option<Loader> {
        let own = self.methods.iter().flat_map(|method| method.loaders());
        let all = self.policies.iter().map(|policy| policy.loader()).chain(own);
        all.into_iter().find(|loader| loader.kind == kind)
    }

    /// All settings with a preset's defaults.
    pub fn config(&self, preset: Preset) -> Config {
        // Those of the main method first, then of policies, then of the others: as a reader goes through them.
        let mut sections: Vec<Section> = Vec::new();
        let mut methods = self.methods.iter();
        sections.extend(methods.next().iter().flat_map(|method| method.sections()));
        sections.extend(self.policies.iter().flat_map(|policy| policy.sections()));
        sections.extend(methods.flat_map(|method| method.sections()));
        Config::preset(preset, &sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{About, Context, Labels, Relabel};

    struct Called(&'static str);

    impl Relabel for Called {
        fn about(&self) -> About {
            About::new(self.0)
        }
        fn relabel(&self, _: &Context<'_>) -> Result<Labels, Error> {
            Ok(Labels::default())
        }
    }

    #[test]
    #[should_panic(expected = "nothing can be called `../mine`")]
    fn names_that_leave_the_folder_are_refused() {
        let _ = Registry::default().with(Called("mine.v2")).with(Called("../mine"));
    }

    #[test]
    #[should_panic(expected = "`all`, which stands for everything")]
    fn nothing_is_called_all() {
        let _ = Registry::default().with(Called("all"));
    }
}
