// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! The command line.

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "\
usage: train_digits [option value]...

Trains a 64-128-64-10 network on handwritten digits twice, from the same weights and on the same batches: once
with Shampoo (with grafting from Adam), and once with AdamW. Prints losses and accuracies.

  --epochs N           passes over the training images (25)
  --batch N            images per step (64)
  --lr X               learning rate of Shampoo (0.03)
  --adamw-lr X         learning rate of AdamW (0.03)
  --weight-decay X     decoupled weight decay of both optimizers (0.1)
  --schedule NAME      constant, or cosine (default); with cosine, the learning rates fall to 0 along half a cosine
  --threads N          threads of a Shampoo step; 0 (the default) selects as many as are useful
  --seed N             seed of the initial weights and of the order of the images (1)
  --set KEY=VALUE      sets a hyper-parameter of libshampoo; docs/keys.md lists the keys; may be repeated
  --data FILE          the images (../c_mlp/data/digits.bin)
  --csv FILE           file for the curves (curves.csv), which ../plot.py draws; if FILE is \"\", no file is written
  --step-losses FILE   file for the losses of each step, which are computed before the update
  --help               this text
";

pub struct Options {
    pub epochs: usize,
    pub batch: usize,
    pub adamw_lr: f64,
    pub weight_decay: f64,
    /// Whether the learning rates fall to 0 along half a cosine.
    pub cosine: bool,
    pub seed: u64,
    pub data: String,
    /// File for the curves. If it is "", the curves are not written.
    pub csv: String,
    pub step_losses: Option<String>,
    /// Hyper-parameters of libshampoo as keys and values; a later value of a key replaces an earlier one.
    pub settings: Vec<(String, String)>,
}

fn number(name: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{name}: {text:?} is not a number of at least 0").into()),
    }
}

fn integer(name: &str, text: &str, smallest: u32) -> Result<usize> {
    match text.parse::<i32>() {
        Ok(value) if i64::from(value) >= i64::from(smallest) => Ok(value as usize),
        _ => Err(format!("{name}: {text:?} is not an integer in [{smallest}, {}]", i32::MAX).into()),
    }
}

impl Options {
    fn defaults() -> Self {
        let settings = [("lr", "0.03"), ("weight_decay", "0.1")];
        Options {
            epochs: 25,
            batch: 64,
            adamw_lr: 0.03,
            weight_decay: 0.1,
            cosine: true,
            seed: 1,
            data: "../c_mlp/data/digits.bin".into(),
            csv: "curves.csv".into(),
            step_losses: None,
            settings: settings.map(|(key, value)| (key.into(), value.into())).into(),
        }
    }

    /// Returns the defaults with the changes of the command line. Ends the program if an argument is --help.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Options::defaults();
        while let Some(name) = arguments.next() {
            if name == "--help" {
                print!("{HELP}");
                std::process::exit(0);
            }
            let value = arguments.next().ok_or_else(|| format!("{name} is unknown or has no value; see --help"))?;
            options.take(&name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: String) {
        self.settings.push((key.into(), value));
    }

    fn take(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "--epochs" => self.epochs = integer(name, &value, 1)?,
            "--batch" => self.batch = integer(name, &value, 1)?,
            "--lr" => self.set("lr", value),
            "--adamw-lr" => self.adamw_lr = number(name, &value)?,
            "--weight-decay" => {
                self.weight_decay = number(name, &value)?;
                self.set("weight_decay", value);
            }
            "--schedule" if value == "cosine" || value == "constant" => self.cosine = value == "cosine",
            "--schedule" => return Err(format!("--schedule: {value:?} is neither cosine nor constant").into()),
            "--threads" => self.set("threads", value),
            "--seed" => self.seed = integer(name, &value, 0)? as u64,
            "--set" => match value.split_once('=') {
                Some((key, text)) => self.set(key, text.into()),
                None => return Err(format!("--set {value:?}: expected KEY=VALUE").into()),
            },
            "--data" => self.data = value,
            "--csv" => self.csv = value,
            "--step-losses" => self.step_losses = Some(value),
            _ => return Err(format!("there is no option {name}; see --help").into()),
        }
        Ok(())
    }
}
